//! `agreement` negotiates with the kernel when a mount begins: which features both use, and how large requests are.

use fuser::{InitFlags, KernelConfig};

use super::{Adapter, MAX_READAHEAD};

/// So much is written in one request, at most.
const MAX_WRITE: u32 = 1 << 20;
/// So many requests nobody waits for are under way at once, at most.
const MAX_BACKGROUND: u16 = 64;

impl Adapter {
    /// What the kernel does not know only makes it slower.
    pub(super) fn agree(&self, config: &mut KernelConfig) {
        let wanted = [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            // Else it asks before every write whether there is an attribute that the write must remove.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        let writeback = self.writeback.then_some(InitFlags::FUSE_WRITEBACK_CACHE);
        for wanted in wanted.into_iter().chain(writeback) {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_readahead(MAX_READAHEAD).or_else(|most| config.set_max_readahead(most));
        let _ = config.set_max_write(MAX_WRITE);
        let _ = config.set_max_background(MAX_BACKGROUND);
    }
}
