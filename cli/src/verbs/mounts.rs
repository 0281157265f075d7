//! `pstore mounts`

use engine::{
    failure::Failure,
    settings::Settings,
    text::{escape, size},
};
use serde_json::{Value, json};

use super::mount::remote::{self, Unreadable};
use crate::{
    answer::Answer,
    table::{Align, Table},
};

pub(super) async fn run(settings: &Settings) -> Result<Answer, Failure> {
    let mut mounts = Vec::new();
    for live in remote::live(settings)? {
        let status = match remote::status(&live.session).await {
            Some(status) => status?,
            // It is being started, or is ending.
            None => json!({
                "session": live.session.file_name().map(|name| name.to_string_lossy()),
                "mountpoint": live.info.mountpoint,
                "pid": live.info.pid,
                "mode": live.info.mode.as_str(),
                "tenant_id": live.info.profile.split('/').next(),
                "profile_id": live.info.profile.split('/').nth(1),
                "chrome_major_version": live.info.chrome_major,
            }),
        };
        mounts.push(status);
    }
    for Unreadable { session, problem } in remote::unreadable(settings)? {
        let told = remote::status(&session).await.and_then(Result::ok);
        let mut status = told
            .unwrap_or_else(|| json!({ "session": session.file_name().map(|name| name.to_string_lossy()) }));
        status["problem"] = json!(problem);
        mounts.push(status);
    }
    let text = text(&mounts);
    Ok(Answer::new(json!({ "mounts": mounts }), text))
}

fn text(mounts: &[Value]) -> String {
    if mounts.is_empty() {
        return "nothing is mounted\n".to_owned();
    }
    let mut table = Table::new(&[
        ("MOUNTPOINT", Align::Left),
        ("PROFILE", Align::Left),
        ("SNAPSHOT", Align::Left),
        ("MODE", Align::Left),
        ("DIRTY", Align::Right),
        ("FETCHED", Align::Right),
        ("HITS", Align::Right),
        ("locked until", Align::Left),
        ("PID", Align::Right),
    ]);
    for mount in mounts {
        let text = |field: &str| mount[field].as_str().unwrap_or("-").to_owned();
        let bytes = |field: &str| mount[field].as_u64().map_or_else(|| "-".to_owned(), size::bytes);
        let hits = mount["cache_hit_ratio"]
            .as_f64()
            .map_or_else(|| "-".to_owned(), |ratio| format!("{:.0} %", ratio * 100.0));
        let lock = match (&mount["lock_lost"], mount["lock"]["expires_at_ms"].as_u64()) {
            (Value::Bool(true), _) => "lock_lost".to_owned(),
            (_, Some(expires)) => engine::text::time::utc(expires),
            _ => "-".to_owned(),
        };
        table.row(vec![
            text("mountpoint"),
            format!("{}/{}", text("tenant_id"), text("profile_id")),
            text("sha256_prefix"),
            text("mode"),
            bytes("dirty_bytes"),
            bytes("fetched_bytes"),
            hits,
            lock,
            mount["pid"].as_u64().map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
        ]);
    }
    let mut text = table.render();
    for mount in mounts {
        if let Some(problem) = mount["problem"].as_str() {
            let session = mount["session"].as_str().unwrap_or_default();
            text.push_str(&format!("session {session} is unreadable: {}\n", escape::line(problem)));
        }
    }
    text
}
