//! `EndedLogins` remembers the cookies whose users have logged out, until the cookies would end by themselves.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

use super::cookie::LoginCookie;
use crate::tokens::Token;

/// So many are remembered of a token. A user who logs out more often harms only its own.
const MAX_OF_A_TOKEN: usize = 1000;

/// See the module header.
#[derive(Debug, Default)]
pub(crate) struct EndedLogins(Mutex<BTreeMap<String, VecDeque<Ended>>>);

#[derive(Debug)]
struct Ended {
    nonce: String,
    /// When the cookie would have ended.
    end_ms: u64,
}

impl EndedLogins {
    /// Remembers a good cookie of this token, which would last until `end_ms`.
    pub(crate) fn add(&self, token: &Token, cookie: &LoginCookie, end_ms: u64, now_ms: u64) {
        let Some(nonce) = cookie.nonce() else { return };
        let mut ended = self.0.lock();
        ended.retain(|_, of_token| {
            of_token.retain(|ended| ended.end_ms > now_ms);
            !of_token.is_empty()
        });
        let of_token = ended.entry(token.name.clone()).or_default();
        if of_token.len() == MAX_OF_A_TOKEN {
            of_token.pop_front();
        }
        of_token.push_back(Ended { nonce: nonce.to_owned(), end_ms });
    }

    /// Whether the user of this cookie has logged out.
    pub(crate) fn has(&self, token: &Token, cookie: &LoginCookie) -> bool {
        let ended = self.0.lock();
        let of_token = ended.get(&token.name);
        of_token
            .is_some_and(|of_token| of_token.iter().any(|ended| Some(ended.nonce.as_str()) == cookie.nonce()))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::key::LoginKey, *};
    use crate::tokens::{Role, SecretDigest, Tenants};

    fn token(name: &str) -> Token {
        Token {
            name: name.to_owned(),
            digest: SecretDigest::of("s"),
            tenants: Tenants::All,
            role: Role::Read,
            expires_at_ms: None,
        }
    }

    #[test]
    fn a_log_out_ends_one_cookie_until_that_would_have_ended() {
        let (ended, key, ops) = (EndedLogins::default(), LoginKey::open(None).unwrap(), token("ops"));
        let [(one, end), (two, _)] =
            [[1; 16], [2; 16]].map(|nonce| LoginCookie::issue(&key, &ops, nonce, 1000));
        ended.add(&ops, &one, end, 2000);
        assert!(ended.has(&ops, &one) && !ended.has(&ops, &two));
        ended.add(&ops, &two, end + 10, end);
        assert!(!ended.has(&ops, &one), "nobody asks for it any more");
        assert_eq!(ended.0.lock()["ops"].len(), 1);
    }

    #[test]
    fn many_log_outs_of_a_token_take_no_room_of_another() {
        let (ended, key) = (EndedLogins::default(), LoginKey::open(None).unwrap());
        let [ops, noisy] = ["ops", "noisy"].map(token);
        let (kept, end) = LoginCookie::issue(&key, &ops, [7; 16], 1000);
        ended.add(&ops, &kept, end, 2000);
        for number in 0..2 * MAX_OF_A_TOKEN as u128 {
            let (cookie, end) = LoginCookie::issue(&key, &noisy, number.to_le_bytes(), 1000);
            ended.add(&noisy, &cookie, end, 2000);
        }
        assert!(ended.has(&ops, &kept));
        assert_eq!(ended.0.lock()["noisy"].len(), MAX_OF_A_TOKEN);
    }
}
