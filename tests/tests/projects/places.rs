//! These tests restore states in place, where something could be lost without a word.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown, symlink},
    path::PathBuf,
};

use rustix::mount::{UnmountFlags, mount_bind, unmount};
use tests::binary::assert_says;

use crate::shop::{ALL, Shop, rows, text};

#[test]
fn parts_of_a_project_that_lie_inside_each_other_are_refused() {
    let shop = Shop::new("[volumes.uploads]\nconsistency = \"generic\"\npath = \"files/uploads\"\n");
    fs::create_dir(shop.path("current/files/uploads")).unwrap();
    fs::write(shop.path("current/files/uploads/photo"), "photo").unwrap();
    let error = shop.host.fail(2, shop.words("save", "", &[]));
    assert_says(&error, "step 1 of 10 (resolve the project): volume \"uploads\" lies inside");
    shop.say("[volumes.all]\nconsistency = \"generic\"\npath = \"volumes\"\n\n[volumes.db]\nconsistency = \"sqlite\"\n");
    assert_says(&shop.host.fail(2, shop.words("save", "", &[])), "volume \"db\" lies inside volume \"all\"");
    assert_eq!(text(shop.path("current/files/uploads/photo")), "photo");
    shop.say(ALL);
    shop.save(&[]);
    shop.assert_tidy();
}

#[test]
fn a_listed_database_that_the_state_does_not_have_stays() {
    let listed =
        |files: &str| format!("[volumes.db]\nconsistency = \"sqlite\"\nfiles = [{files}]\n{}", uploads());
    let shop = Shop::new(&listed("\"app.db\""));
    shop.save(&[]);
    shop.database("wal").execute_batch("INSERT INTO a VALUES (1)").unwrap();
    let later = shop.path("current/volumes/db/later.db");
    rusqlite::Connection::open(&later).unwrap().execute_batch("CREATE TABLE a(n)").unwrap();
    shop.say(&listed("\"app.db\", \"later.db\""));
    let restored = shop.host.succeed(shop.words("restore", "", &[]));
    assert!(restored["warnings"].to_string().contains("no database later.db of volume db"), "{restored:#}");
    assert_eq!((rows(&shop.database_path(), "a"), rows(&later, "a")), (0, 0));
    shop.assert_tidy();
}

#[test]
fn what_belongs_to_no_volume_is_told() {
    let shop = Shop::new(&format!("[volumes.db]\nconsistency = \"sqlite\"\n{}", uploads()));
    assert_eq!(shop.save(&[])["warnings"], serde_json::json!([]));
    fs::create_dir(shop.path("current/volumes/extra")).unwrap();
    let saved = shop.save(&[]);
    let warning = saved["warnings"][0].as_str().unwrap();
    assert!(warning.contains("current/volumes/extra belongs to no volume, and is not saved"), "{warning}");
}

/// The kernel renames no mount point, which shows only after everything was written beside it.
#[test]
fn a_volume_that_is_a_mount_point_is_refused_before_anything_is_written() {
    struct Bound(PathBuf);
    impl Drop for Bound {
        fn drop(&mut self) {
            let _ = unmount(&self.0, UnmountFlags::DETACH);
        }
    }
    let shop = Shop::new(ALL);
    shop.save(&[]);
    // Of the same device as the folder above it.
    let uploads = shop.path("current/volumes/uploads");
    mount_bind(&uploads, &uploads).unwrap();
    let bound = Bound(uploads);
    fs::write(shop.path("current/files/readme"), "two").unwrap();
    let error = shop.host.fail(32, shop.words("restore", "", &[]));
    assert_says(&error, "volume \"uploads\" cannot be replaced");
    assert_says(&error, "is a mount point");
    assert!(error["hint"].as_str().unwrap().contains("--to DIR"), "{error:#}");
    assert_eq!(shop.states().len(), 1, "nothing was saved for it");
    assert_eq!(text(shop.path("current/files/readme")), "two");
    shop.save(&[]);
    assert_eq!(text(shop.restore_to("@latest", "out").join("files/readme")), "two");
    drop(bound);
    shop.host.succeed(shop.words("restore", "@latest~1", &[]));
    assert_eq!(text(shop.path("current/files/readme")), "one");
    shop.assert_tidy();
}

/// After that the state is current, and with keep = "one" the older ones are gone.
#[test]
fn nothing_that_stands_among_the_volumes_fails_a_save_that_is_stored() {
    let shop = Shop::new(&format!("keep = \"one\"\n{ALL}"));
    shop.save(&[]);
    let around = shop.path("current/volumes/around");
    symlink(&around, &around).unwrap();
    let saved = shop.save(&[]);
    let warning = saved["warnings"][0].as_str().unwrap();
    assert!(warning.contains("current/volumes/around belongs to no volume"), "{warning}");
    assert_eq!(shop.states()[0]["snapshotId"], saved["snapshot"]["snapshotId"]);
    shop.assert_tidy();
}

/// As root, as whom tests run.
#[test]
fn a_database_has_its_owner_after_a_restore() {
    for text in [
        "[volumes.db]\nconsistency = \"sqlite\"\n",
        "[volumes.db]\nconsistency = \"sqlite\"\nfiles = [\"in/app.db\"]\n",
    ] {
        let shop = Shop::new(&format!("{text}{}", uploads()));
        let folder = shop.path("current/volumes/db/in");
        fs::create_dir(&folder).unwrap();
        fs::rename(shop.database_path(), folder.join("app.db")).unwrap();
        for path in [folder.join("app.db"), folder.clone(), shop.path("current/volumes/db")] {
            chown(path, Some(1234), Some(2345)).unwrap();
        }
        shop.save(&[]);
        shop.host.succeed(shop.words("restore", "", &[]));
        for path in [folder.join("app.db"), folder, shop.path("current/volumes/db")] {
            let found = fs::metadata(&path).unwrap();
            assert_eq!((found.uid(), found.gid()), (1234, 2345), "{text}: {}", path.display());
        }
        let out = shop.restore_to("", "out").join("volumes/db/in");
        for path in [out.join("app.db"), out] {
            assert_eq!(fs::metadata(&path).unwrap().uid(), 1234, "{text}: {}", path.display());
        }
    }
}

fn uploads() -> &'static str {
    "\n[volumes.uploads]\nconsistency = \"generic\"\n"
}
