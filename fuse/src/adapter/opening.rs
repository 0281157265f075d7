//! `opening` answers the kernel when it opens or creates files. Who comes to write waits while a commit looks.

use std::ffi::OsStr;

use fuser::{FileHandle, FopenFlags, INodeNo, OpenAccMode, OpenFlags, ReplyCreate, ReplyOpen};

use super::{
    Adapter,
    answers::{FOREVER, GENERATION, ino, owned},
    translate::errno,
};
use crate::{
    Result,
    attributes::Attributes,
    fs::{Caller, Fs, gate::Pass},
    overlay::change::NewKind,
};

impl Adapter {
    pub(super) fn open_file(&self, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        // Whoever cannot have written anything need not wait at the end until it is flushed.
        let at_the_end = if writes { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH };
        let answer = move |opened: Result<u64>| match opened {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE | at_the_end),
            Err(error) => reply.error(errno(error)),
        };
        if !writes {
            return answer(self.fs.open(ino(number), false));
        }
        if let Some(pass) = self.fs.try_come() {
            let opened = self.fs.open(ino(number), true);
            drop(pass);
            return answer(opened);
        }
        self.aside(move |fs| {
            let pass = fs.come();
            let opened = fs.open(ino(number), true);
            drop(pass);
            answer(opened);
        });
    }

    pub(super) fn create_file(
        &self,
        caller: Caller,
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        flags: OpenFlags,
        reply: ReplyCreate,
    ) {
        let (name, view) = (owned(name), self.view);
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let create = move |fs: &Fs, pass: &Pass<'_>| {
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
        if let Some(come) = self.fs.try_come()
            && let Some(pass) = self.fs.try_enter()
        {
            let made = create(&self.fs, &pass);
            drop((pass, come));
            return answer(made);
        }
        self.aside(move |fs| {
            let come = fs.come();
            let pass = fs.enter();
            let made = create(fs, &pass);
            drop((pass, come));
            answer(made);
        });
    }
}
