//! These tests bring a survey up to date: it reads what has changed since it looked last, and nothing else.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use store::{
    bucket::{Access, Bucket, LocalBucket, Recorder},
    catalog::store::Store,
    content::TenantStore,
    ops::read::survey::{LineageSurvey, PointerSummary, RecordSummary, Survey},
};
use tests::many_profiles::{self, Many};

/// A tenant of made-up profiles whose calls are counted.
struct Scene {
    folder: tempfile::TempDir,
    recorder: Arc<Recorder>,
    tenant: TenantStore,
    survey: Survey,
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        many_profiles::make(folder.path(), Many { tenants: 1, profiles: 3, snapshots: 4 }).await;
        let local: Arc<dyn Bucket> = Arc::new(LocalBucket::open(folder.path(), Access::Create).unwrap());
        let recorder = Arc::new(Recorder::new(local));
        let store = Store::new(Arc::clone(&recorder) as Arc<dyn Bucket>, None);
        let tenant = store.tenant(&"tenant-000".parse().unwrap()).await.unwrap();
        Self { folder, recorder, tenant, survey: Survey::default() }
    }

    /// Looks, and tells what was read of the made-up profiles. What a moment ago was captured is always read.
    async fn look(&mut self) -> Vec<String> {
        self.recorder.take();
        self.survey.look(&self.tenant).await.unwrap();
        let reads = self.recorder.take().into_iter().filter(|call| call.verb.is_read());
        reads.map(|call| call.key).filter(|key| key.contains("/profile-00")).collect()
    }

    fn lineage(&self, number: u64) -> &LineageSurvey {
        let named = |name: &str| name == format!("profile-{number:03}");
        let mut lineages = self.survey.lineages().iter();
        lineages.find(|((profile, _), _)| named(profile.as_str())).unwrap().1
    }

    /// The objects of a profile whose names begin so.
    fn objects(&self, number: u64, begin: &str) -> Vec<PathBuf> {
        let path = format!("objects/snapshots/tenant-000/profile-{number:03}/131");
        let entries = fs::read_dir(self.folder.path().join(path)).unwrap().map(|entry| entry.unwrap().path());
        let is_named = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(begin);
        entries.filter(is_named).collect()
    }
}

fn age(path: &Path, seconds: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

#[tokio::test]
async fn what_is_listed_as_before_is_not_read_again() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.look().await.len(), 3 * (4 + 1));
    assert_eq!(scene.look().await, Vec::<String>::new());
    assert_eq!(scene.lineage(0).records().count(), 4);
    // Something is written: it is read, and while it is young it is read again.
    let record = scene.objects(1, "snap-")[0].clone();
    age(&record, 0);
    for _ in 0..2 {
        let read = scene.look().await;
        assert_eq!(read.len(), 1, "{read:?}");
        assert!(read[0].ends_with(record.file_name().unwrap().to_str().unwrap()), "{read:?}");
    }
    age(&record, 90);
    assert_eq!((scene.look().await.len(), scene.look().await.len()), (1, 0));
}

#[tokio::test]
async fn what_is_gone_or_damaged_is_told_and_takes_no_other_with_it() {
    let mut scene = Scene::new().await;
    scene.look().await;
    assert!(matches!(scene.lineage(2).pointer(), Some(PointerSummary::Record(..))));
    fs::remove_file(&scene.objects(0, "snap-")[0]).unwrap();
    fs::write(&scene.objects(1, "snap-")[0], "no record").unwrap();
    fs::write(&scene.objects(2, "latest")[0], "no pointer").unwrap();
    assert_eq!(scene.look().await.len(), 2);
    assert_eq!(scene.lineage(0).records().count(), 3);
    let unreadable = |record: &RecordSummary| matches!(record, RecordSummary::Unreadable(_));
    assert_eq!(scene.lineage(1).records().filter(|(_, record)| unreadable(record)).count(), 1);
    assert_eq!(scene.lineage(1).records().count(), 4);
    assert!(matches!(scene.lineage(2).pointer(), Some(PointerSummary::Damaged(_))));
}
