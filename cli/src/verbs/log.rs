//! `pstore log`

use engine::{failure::Failure, text::time};
use serde_json::{Value, json};
use store::{catalog::events, format::event::Event};

use super::Engine;
use crate::{
    answer::Answer,
    args::LogArgs,
    table::{Align::Left, Table},
};

pub(super) async fn run(engine: Engine, args: &LogArgs) -> Result<Answer, Failure> {
    let (tenant, lineage) = engine.lineage(&args.lineage.name()).await?;
    let most = Some(args.last).filter(|last| *last > 0);
    let mut unreadable = 0;
    let mut shown = Vec::new();
    for event in events::log(&tenant, &lineage, most).await? {
        match event {
            Ok(event) => shown.push(event),
            Err(error) => {
                engine.warn(&error.to_string());
                unreadable += 1;
            }
        }
    }
    let document = json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "unreadable": unreadable,
        "events": shown.iter().map(line).collect::<Vec<Value>>(),
    });
    let mut table =
        Table::new(&[("WHEN (UTC)", Left), ("EVENT", Left), ("WHAT", Left), ("BY", Left), ("WHY", Left)]);
    for event in &shown {
        let by: Vec<&str> = [event.by.run_id.as_str(), event.by.host.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        table.row(vec![
            time::utc(event.at_ms),
            event.kind.as_str().to_owned(),
            what(event),
            by.join(" on "),
            event.reason.clone(),
        ]);
    }
    Ok(Answer::new(document, table.render()))
}

fn line(event: &Event) -> Value {
    json!({
        "event_id": event.id,
        "kind": event.kind,
        "at_ms": event.at_ms,
        "by": { "run_id": event.by.run_id, "host": event.by.host, "host_run_id": event.by.host_run_id },
        "reason": event.reason,
        "from_sha256_prefix": event.from_sha256_prefix,
        "to_sha256_prefix": event.to_sha256_prefix,
        "flip_id": event.flip_id,
        "record": event.record,
        "holder_run_id": event.holder.as_ref().map(|holder| &holder.run_id),
        "holder_host": event.holder.as_ref().map(|holder| &holder.host),
        "holder_host_run_id": event.holder.as_ref().map(|holder| &holder.host_run_id),
    })
}

fn what(event: &Event) -> String {
    let named = |prefix: &str| if prefix.is_empty() { "nothing".to_owned() } else { prefix.to_owned() };
    match (&event.from_sha256_prefix, &event.to_sha256_prefix, &event.holder) {
        (Some(from), Some(to), _) => format!("{} -> {to}", named(from)),
        (Some(from), None, _) => from.clone(),
        (_, _, Some(holder)) => format!("held by {}", holder.run_id),
        _ => String::new(),
    }
}
