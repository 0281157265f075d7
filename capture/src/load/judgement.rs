//! `judgement` predicts the outcome of a load, and writes nothing.

use std::sync::Arc;

use store::{
    Result,
    content::{TenantStore, snapshot_tree::stream::TreeStream},
    ops::read::open::OpenedTree,
    progress::Progress,
};

use super::{
    Attempt, LoadRequest, Loaded, Older, Outcome, choose, examined, fresh, no_profile, suitability, whole,
};

/// Judges the outcome of a load, for a program that fetches the snapshot in another way. As a mount does, it
/// trusts the findings of the capture. Databases that nobody has examined are fetched and examined; no other
/// content is read.
pub async fn judge(
    store: Option<&TenantStore>,
    request: &LoadRequest,
    progress: Arc<dyn Progress>,
) -> Result<Loaded> {
    match attempt(store, request, progress).await {
        Attempt::Done(loaded) => Ok(*loaded),
        Attempt::Failed(error, record) => fresh(error, record, request),
    }
}

async fn attempt(store: Option<&TenantStore>, request: &LoadRequest, progress: Arc<dyn Progress>) -> Attempt {
    let Some(store) = store else { return Attempt::Failed(no_profile(request), None) };
    let (record, older) = match choose(store, request, progress).await {
        Ok(chosen) => chosen,
        Err(error) => return Attempt::Failed(error, None),
    };
    let judged = async {
        suitability::check(&record, request)?;
        whole(&record)?;
        let mut opened = OpenedTree::load(store, record.clone()).await?;
        if opened.tree.metadata().is_none() {
            // A small one was checked when it was opened.
            let mut stream = TreeStream::new(Arc::clone(&opened.tree)).await?;
            while stream.next().await?.is_some() {}
        }
        examined(store, &mut opened, request).await
    };
    let unexamined = match judged.await {
        Ok(warnings) => warnings,
        Err(error) => return Attempt::Failed(error, Some(Box::new(record))),
    };
    let mut warnings: Vec<String> = older.iter().map(Older::told).collect();
    warnings.extend(suitability::warnings(&record, request));
    warnings.extend(unexamined);
    Attempt::Done(Box::new(Loaded {
        outcome: Outcome::Success,
        reason: None,
        record: Some(record),
        report: None,
        transforms: older.iter().map(Older::transform).collect(),
        warnings,
    }))
}
