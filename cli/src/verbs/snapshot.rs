//! `pstore snapshot`

mod summary;

use std::collections::BTreeMap;

use store::{
    ErrorKind,
    format::{
        WRITER,
        record::{CapturedBy, CapturedIn},
    },
    name::{ChromeMajor, Lineage},
    ops::snapshot::{self, About, Request},
};

use super::Context;
use crate::{
    answer::Answer,
    args::SnapshotArgs,
    chrome::{self, Facts},
    failure::Failure,
    progress,
};

/// How much of the tenant's indexes a snapshot looks at to find known content.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;

pub(super) async fn run(context: Context, args: &SnapshotArgs) -> Result<Answer, Failure> {
    if !args.directory.is_dir() {
        let message = format!("there is no directory {}", args.directory.display());
        return Err(Failure::new(ErrorKind::NotFound, message));
    }
    context.location.keep_apart(&args.directory)?;
    let labels = labels(args)?;
    let facts = Facts::read(&args.directory);
    let lineage = Lineage { name: args.profile.clone(), chrome_major: chrome_major(&context, args, &facts)? };
    let tenant = context.writable_tenant(&lineage.name.tenant).await?;
    let request = Request {
        directory: args.directory.clone(),
        rescan: args.rescan,
        index_budget: INDEX_BUDGET_BYTES,
        threads: crate::threads(),
        actor: Default::default(),
        lock: Default::default(),
        about: about(args, labels, facts),
        lineage,
    };
    let report = snapshot::snapshot(&tenant, &request, progress::watch(context.console)).await;
    let report = report.map_err(|error| match error.kind() {
        ErrorKind::PointerNotFlipped => Failure::from(error).hint(again(&request)),
        _ => error.into(),
    })?;
    let warnings = summary::warnings(&report);
    warnings.iter().for_each(|warning| context.console.warn(warning));
    let brief = Some(format!("{}\n", report.snapshot_id));
    let document = summary::document(&request.lineage, &report, &warnings);
    Ok(Answer { brief, ..Answer::new(document, summary::text(&request.lineage, &report)) })
}

/// The command that moves the pointer to what is stored already.
fn again(request: &Request) -> String {
    let Lineage { name, chrome_major } = &request.lineage;
    let directory = quoted(&request.directory.to_string_lossy());
    format!(
        "`pstore snapshot {directory} {name} --chrome-major {chrome_major}` moves the pointer; \
         nothing is stored twice"
    )
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn chrome_major(context: &Context, args: &SnapshotArgs, facts: &Facts) -> Result<ChromeMajor, Failure> {
    match (args.chrome_major, facts.major()) {
        (Some(given), Some(found)) if given != found => {
            context.console.warn(&format!(
                "the directory was last used by Chrome {found}, but is stored as Chrome {given}"
            ));
            Ok(given)
        }
        (Some(given), _) => Ok(given),
        (None, Some(found)) => {
            context.console.say(&format!("taking Chrome {found} from the directory's `Last Version`"));
            Ok(found)
        }
        (None, None) => {
            let message = format!("which Chrome wrote {} is not known", args.directory.display());
            Err(Failure::usage(message).hint("say it with --chrome-major, for example --chrome-major 131"))
        }
    }
}

fn labels(args: &SnapshotArgs) -> Result<BTreeMap<String, String>, Failure> {
    let mut labels = BTreeMap::new();
    for (key, value) in &args.labels {
        if labels.insert(key.clone(), value.clone()).is_some() {
            return Err(Failure::usage(format!("the label {key:?} is given twice")));
        }
    }
    Ok(labels)
}

fn about(args: &SnapshotArgs, labels: BTreeMap<String, String>, facts: Facts) -> About {
    About {
        captured_by: CapturedBy {
            host: args.host.clone().unwrap_or_else(host_name),
            host_run_id: args.host_run_id.clone(),
            writer_version: WRITER.to_owned(),
            unknown: Default::default(),
        },
        captured_in: args.host_region.clone().map(|host_region| CapturedIn {
            host_region,
            egress_ip_geo: None,
            unknown: Default::default(),
        }),
        reason: args.reason.0.clone(),
        labels,
        notes: args.notes.clone(),
        chrome_last_version: facts.last_version,
        exit_type: facts.exit_type,
        chrome_uptime_seconds: 0,
        exclusions: chrome::EXCLUSIONS.map(str::to_owned).to_vec(),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
