//! `help` holds the overview of all commands, written by hand so that it fits a screen.

pub(super) const OVERVIEW: &str = "\
pstore keeps browser profiles as deduplicated, verified snapshots.

Usage: pstore [OPTIONS] COMMAND        (pstore help COMMAND tells more)

  snapshot DIR TENANT/PROFILE   store a directory as the profile's next snapshot
  restore TENANT/PROFILE DIR    write a snapshot to a directory
  mount TENANT/PROFILE DIR      use it at once, fetched as it is read; writable
  commit, unmount, mounts, sessions   the next snapshot from a mount; end, list
  run TENANT/PROFILE -- CMD     lock, load, run a command on it, capture, unlock
  list [TENANT[/PROFILE]]       tenants, profiles of one, or snapshots of one
  show, ls, cat, find, history, diff, verify   look into snapshots; check them
  rollback, delete, tag, untag, expect   current one; names; what must be there
  retention plan|apply, gc      remove snapshots by rules; free what none needs
  lock, force-unlock, reap, log   who may move a pointer, who did; end that
  serve, token, export, import, init, doctor, stats, config, completions, man

  --store URL       file:///path or s3://bucket/prefix   [env: PSTORE_STORE]
  --endpoint URL    of an S3-compatible server     [env: PSTORE_S3_ENDPOINT]
  --region NAME     of the S3 bucket                 [env: PSTORE_S3_REGION]
  --cache-dir DIR   where this host remembers; --no-cache for nowhere
  --config FILE     settings; else ~/.config/pstore/pstore.toml
  --json            print one JSON document
  -q, --quiet       no progress, no remarks; -v, --verbose for more of them
  -h, --help        this, or a command's help; -V, --version
";
