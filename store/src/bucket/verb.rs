//! The kinds of call a bucket takes, for wrappers that count or choose among them.

/// One method of a bucket; a put is told apart by its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Get,
    GetRange,
    Create,
    Replace,
    List,
    Delete,
    DeleteIf,
}

impl Verb {
    pub fn of_write(write: &super::Write) -> Self {
        match write {
            super::Write::Create => Self::Create,
            super::Write::Replace(_) => Self::Replace,
        }
    }

    pub fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::GetRange | Self::List)
    }
}
