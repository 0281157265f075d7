//! `opening` answers the kernel when it opens or creates files. A program that opens one to write waits while a commit
//! takes the tree.

use std::ffi::OsStr;

use fuser::{FileHandle, FopenFlags, INodeNo, OpenAccMode, OpenFlags, ReplyCreate, ReplyOpen};

use super::{
    Adapter,
    answers::{FOREVER, GENERATION, ino, owned},
    settled,
    translate::errno,
};
use crate::{
    Result,
    attributes::Attributes,
    fs::{Answer, Caller, Fs, Unanswered, gate::Pass},
    overlay::change::NewKind,
};

impl Adapter {
    pub(super) fn open_file(&self, asker: u32, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        // Whoever cannot have written anything need not wait at the end until it is flushed.
        let at_the_end = if writes { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH };
        let answer = move |opened: Result<u64>| match opened {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE | at_the_end),
            Err(error) => reply.error(errno(error)),
        };
        if !writes {
            return self.ask(asker, move |fs| fs.open(ino(number), false), answer);
        }
        self.come(asker, move |fs| fs.open(ino(number), true), answer);
    }

    pub(super) fn create_file(
        &self,
        (asker, caller): (u32, Caller),
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        flags: OpenFlags,
        reply: ReplyCreate,
    ) {
        let (name, view) = (owned(name), self.view);
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let create = move |fs: &Fs, pass: &Pass<'_>| -> Answer<(Attributes, u64)> {
            let maker = view.maker(fs, caller, ino(parent))?;
            let made = fs.make(pass, maker, ino(parent), &name, NewKind::File, mode)?;
            Ok((made, fs.open(made.ino, writes)?))
        };
        let answer = move |made: Result<(Attributes, u64)>| match made {
            Ok((made, handle)) => reply.created(
                &FOREVER,
                &view.attr(&made),
                GENERATION,
                FileHandle(handle),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(error) => reply.error(errno(error)),
        };
        let mut first = None;
        if let Some(come) = self.fs.try_come()
            && let Some(pass) = self.fs.try_enter()
        {
            let made = create(&self.fs, &pass);
            drop((pass, come));
            match made {
                Ok(made) => return answer(Ok(made)),
                Err(Unanswered::Refused(errno)) => return answer(Err(errno)),
                Err(Unanswered::Missing(missing)) => first = Some(missing),
            }
        }
        let runtime = self.runtime.clone();
        self.aside(move |fs| {
            let again = || {
                let _come = fs.come();
                create(fs, &fs.enter())
            };
            answer(settled(&runtime, asker, first, again));
        });
    }

    /// Opens a file for writing now, or, if that must wait, where nobody else waits for it.
    fn come(
        &self,
        asker: u32,
        open: impl Fn(&Fs) -> Answer<u64> + Send + 'static,
        answer: impl FnOnce(Result<u64>) + Send + 'static,
    ) {
        let mut first = None;
        if let Some(pass) = self.fs.try_come() {
            let opened = open(&self.fs);
            drop(pass);
            match opened {
                Ok(opened) => return answer(Ok(opened)),
                Err(Unanswered::Refused(errno)) => return answer(Err(errno)),
                Err(Unanswered::Missing(missing)) => first = Some(missing),
            }
        }
        let runtime = self.runtime.clone();
        self.aside(move |fs| {
            let again = || {
                let _come = fs.come();
                open(fs)
            };
            answer(settled(&runtime, asker, first, again));
        });
    }
}
