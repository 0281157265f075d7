//! `help` holds the overview of all commands, written by hand so that it fits a screen.

pub(super) const OVERVIEW: &str = "\
pstore keeps browser profiles as deduplicated, verified snapshots.

Usage: pstore [OPTIONS] COMMAND        (pstore help COMMAND tells more)

  snapshot DIR TENANT/PROFILE   store a directory as the profile's next snapshot
  restore TENANT/PROFILE DIR    write a snapshot to a directory
  mount TENANT/PROFILE DIR      use it at once, writable; bytes come on demand
  commit, unmount, mounts, sessions   store a mount's changes; end it; list
  workspace start|…, checkpoint, mcp   checkpoints of an agent's directory
  run TENANT/PROFILE -- CMD     lock, load, run a command on it, capture, unlock
  list, show, ls, cat, find, history, diff, verify   list, inspect, check
  project save|list|show|restore|delete FILE   databases, volumes of a project
  rollback, delete, tag, untag, expect, retention, gc, stats   go back; delete
  lock, force-unlock, reap, log, top, container   locks; events; containers
  serve, token, metrics, export, import, init, doctor, config, completions, man

  --store URL       file:///path or s3://bucket/prefix   [env: PSTORE_STORE]
  --endpoint URL    of an S3-compatible server     [env: PSTORE_S3_ENDPOINT]
  --region NAME     of the S3 bucket                 [env: PSTORE_S3_REGION]
  --cache-dir DIR   cache directory of this host; --no-cache for none
  --config FILE     settings [default: ~/.config/pstore/pstore.toml]
  --json            print one JSON document; --progress json tells progress
  -q, --quiet       only errors and results; -v, --verbose for more
  -h, --help        this page, or a command's help; -V, --version
";
