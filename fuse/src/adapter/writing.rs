//! `writing` answers the kernel when it writes to files.

use fuser::{INodeNo, ReplyWrite, WriteFlags};

use super::{Adapter, answers::ino, translate::errno};
use crate::{
    Result,
    fs::{Answer, Fs, Unanswered, gate::Pass},
    overlay::node::Ino,
};

impl Adapter {
    pub(super) fn write_file(
        &self,
        asker: u32,
        number: INodeNo,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        reply: ReplyWrite,
    ) {
        let answer = move |written: Result<usize>| match written {
            Ok(written) => reply.written(written as u32),
            Err(error) => reply.error(errno(error)),
        };
        // The bytes are the kernel's; they are copied only if they must wait.
        if let Some(pass) = self.fs.try_enter() {
            let written = write(&self.fs, &pass, ino(number), offset, data, flags);
            drop(pass);
            match written {
                Ok(written) => return answer(Ok(written)),
                Err(Unanswered::Refused(errno)) => return answer(Err(errno)),
                Err(Unanswered::Missing(_)) => {}
            }
        }
        let data = data.to_vec();
        self.change(asker, move |fs, pass| write(fs, pass, ino(number), offset, &data, flags), answer);
    }
}

fn write(fs: &Fs, pass: &Pass<'_>, ino: Ino, offset: u64, data: &[u8], flags: WriteFlags) -> Answer<usize> {
    if flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
        fs.take_rights(pass, ino)?;
    }
    match flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
        true => fs.write_all(pass, ino, offset, data),
        false => fs.write(pass, ino, offset, data),
    }
}
