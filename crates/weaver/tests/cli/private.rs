//! A store is its owner's alone, and so is everything made of it.

use crate::server::Server;
use crate::support::Place;

pub(crate) fn chmod(place: &Place, name: &str, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(place.path(name), mode).expect("a file of the test can be changed");
}

/// The permission bits of a file or directory.
pub(crate) fn mode(place: &Place, name: &str) -> u32 {
    let found = std::fs::symlink_metadata(place.path(name)).expect("it is there");
    std::os::unix::fs::MetadataExt::mode(&found) & 0o777
}

const FILES: [&str; 3] = ["weaver.redb", "FORMAT", "LOCK"];

fn assert_private(place: &Place, store: &str) {
    assert_eq!(mode(place, store), 0o700, "{store}");
    for file in FILES {
        assert_eq!(mode(place, &format!("{store}/{file}")), 0o600, "{store}/{file}");
    }
}

#[test]
fn a_store_its_backup_and_its_export_are_made_for_their_owner_alone() {
    let place = Place::with_store();
    assert_private(&place, "weaver-data");
    place.run("store backup ./backups/first").succeeded();
    assert_private(&place, "backups/first");
    place.run("store export tasks.jsonl").succeeded();
    assert_eq!(mode(&place, "tasks.jsonl"), 0o600);
    place.run("store import tasks.jsonl --store ./second").succeeded();
    assert_private(&place, "second");
    place.run("store compact").succeeded();
    assert_private(&place, "weaver-data");
}

#[test]
fn a_store_that_others_could_read_is_tightened_at_the_start_and_that_is_logged() {
    let place = Place::with_store();
    chmod(&place, "weaver-data", 0o755);
    FILES.iter().for_each(|file| chmod(&place, &format!("weaver-data/{file}"), 0o644));
    let server = Server::start(&place, "serve");
    assert_private(&place, "weaver-data");
    let errors = server.stop().errors;
    assert!(errors.contains("store was accessible to other users"), "{errors}");
    assert!(errors.contains("before=755") && errors.contains("after=700"), "{errors}");
}

#[test]
fn a_directory_that_holds_other_files_too_keeps_its_mode_and_the_stores_files_are_tightened() {
    let place = Place::with_store();
    place.write("weaver-data/notes", "mine");
    chmod(&place, "weaver-data", 0o755);
    chmod(&place, "weaver-data/weaver.redb", 0o644);
    place.run("store check").succeeded();
    assert_eq!((mode(&place, "weaver-data"), mode(&place, "weaver-data/weaver.redb")), (0o755, 0o600));
    assert_ne!(mode(&place, "weaver-data/notes"), 0o600, "what is not the store's is left alone");
}

#[test]
fn doctor_reports_a_store_that_others_reach_and_a_parent_that_others_write_to() {
    let place = Place::with_store();
    assert!(!place.run("doctor").succeeded().contains("other users"));
    chmod(&place, "weaver-data", 0o755);
    assert!(place.run("doctor").succeeded().contains("chmod go-rwx ./weaver-data"));
    chmod(&place, "", 0o777);
    let said = place.run("doctor").succeeded();
    assert!(said.contains("a parent of the store") && said.contains("chmod go-w"), "{said}");
}
