//! `input` reads numbers and bytes as section 2 of the format spells them.

/// The rest of the input.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

pub(super) type Read<T> = Result<T, String>;

impl<'a> Input<'a> {
    pub(super) fn take(&mut self, len: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("it ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().unwrap()))
    }

    pub(super) fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().unwrap()))
    }

    pub(super) fn varint(&mut self) -> Read<u64> {
        let mut value: u128 = 0;
        for place in 0..10 {
            let byte = self.byte()?;
            value |= u128::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                let short = place == 0 || byte != 0;
                return u64::try_from(value).ok().filter(|_| short).ok_or("a number is misspelt".into());
            }
        }
        Err("a number is too long".into())
    }

    pub(super) fn length(&mut self) -> Read<usize> {
        let length = self.varint()?;
        if length > self.0.len() as u64 {
            return Err("a length goes past the end".into());
        }
        Ok(length as usize)
    }

    pub(super) fn bytes(&mut self) -> Read<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub(super) fn prefix(&mut self, prefix: &str) -> Read<()> {
        let found = self.take(prefix.len())?;
        if found != prefix.as_bytes() {
            return Err(format!("it does not begin with {prefix:?}"));
        }
        Ok(())
    }

    /// The name of a pack: its write and its number.
    pub(super) fn pack(&mut self) -> Read<String> {
        let write = u128::from_be_bytes(self.take(16)?.try_into().unwrap());
        Ok(pack_name(write, self.u32()?))
    }
}

pub(super) fn pack_name(write: u128, number: u32) -> String {
    match number {
        u32::MAX => format!("{}-meta", ulid(write)),
        number => format!("{}-{number:05}", ulid(write)),
    }
}

/// Crockford's base 32, 26 digits.
pub(super) fn ulid(number: u128) -> String {
    let digit = |place: u32| b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"[(number >> (5 * place)) as usize & 31];
    (0..26).rev().map(|place| char::from(digit(place))).collect()
}
