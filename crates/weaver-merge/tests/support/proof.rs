//! Invariants that hold after every test.
//!
//! They are checked against the repository, not against the queue's own record: the reflog says where the
//! base has been, and the check's log says what was tested.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use weaver_merge::domain::{EntryId, EntryOutcome, MergeQueue, Oid, QueueId, Status};
use weaver_merge::engine::{Certificate, MergeEngine};

use crate::repo::Repo;

/// Identity in the reflog when the queue moved the branch.
const LANDING: &str = "Weaver merge queue <";

/// A check that fails if there is a file `bad`, and logs the commits it passed.
pub(crate) fn unit(repo: &Repo) -> String {
    let log = tested_log(repo);
    format!("if test -e bad; then echo it is bad; exit 3; fi; echo $WEAVER_COMMIT >> {}", log.display())
}

/// A configuration of shell scripts by name.
pub(crate) fn config(checks: &[(&str, &str)]) -> String {
    let check = |(name, script): &(&str, &str)| {
        format!("[[check]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n")
    };
    checks.iter().map(check).collect()
}

pub(crate) fn checks_directory(repo: &Repo) -> PathBuf {
    repo.scratch("checks")
}

fn tested_log(repo: &Repo) -> PathBuf {
    repo.scratch("log").join("passed")
}

/// Where an entry is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Waiting,
    Checking,
    Landed,
    Ejected,
}

/// A queue, its repository, and the base as it was when the queue was made.
pub(crate) struct Proof<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) engine: &'a MergeEngine,
    pub(crate) queue: &'a QueueId,
    pub(crate) first: &'a Oid,
}

impl Proof<'_> {
    /// Panics unless all invariants hold. `outsiders` are commits pushed to the base outside the queue.
    pub(crate) async fn prove(&self, outsiders: &[Oid]) {
        self.prove_record(outsiders).await;
        let left = std::fs::read_dir(checks_directory(self.repo)).unwrap().count();
        assert_eq!(left, 0, "no files of checks are left");
    }

    /// The same but for files of checks: those of a killed process are there until the next check.
    pub(crate) async fn prove_record(&self, outsiders: &[Oid]) {
        let queue = self.engine.get(self.queue).await.unwrap().queue;
        the_queue_is_in_order(&queue);
        let certified = self.each_entry_is_in_one_place(&queue).await;
        self.the_base_moved_only_by_landings(&certified, outsiders);
        self.what_landed_was_tested(certified, outsiders);
    }

    async fn each_entry_is_in_one_place(&self, queue: &MergeQueue) -> BTreeMap<Oid, Certificate> {
        let mut certified = BTreeMap::new();
        let mut landed = BTreeSet::new();
        for number in 1..queue.next_entry {
            let id = EntryId(number);
            let detail = self.engine.entry(self.queue, id).await.unwrap();
            let place = match (queue.entry(id).map(|entry| entry.status), &detail.outcome) {
                (Ok(Status::Pending | Status::Updating), None) => Place::Waiting,
                (Ok(Status::Checking | Status::Ready), None) => Place::Checking,
                (Err(_), Some(EntryOutcome::Landed)) => Place::Landed,
                (Err(_), Some(EntryOutcome::Removed(_))) => Place::Ejected,
                other => panic!("entry {number} is in no place, or in two: {other:?}"),
            };
            assert_eq!(place == Place::Landed, detail.certificate.is_some(), "entry {number}");
            let Some(certificate) = detail.certificate else { continue };
            let verified = self.engine.verify(self.queue, id).await.unwrap().unwrap();
            assert_eq!(verified.differences, Vec::<String>::new());
            let change = (certificate.pull_request.clone(), certificate.head.clone());
            assert!(landed.insert(change), "a change landed twice: {certificate:?}");
            let twice = certified.insert(certificate.commit.clone(), certificate);
            assert_eq!(twice, None, "a commit landed twice");
        }
        assert_eq!(queue.tally.landed, certified.len() as u64, "landings are counted once");
        certified
    }

    /// By the reflog: from the tested parent to the candidate, once each, and otherwise only by outsiders.
    fn the_base_moved_only_by_landings(&self, certified: &BTreeMap<Oid, Certificate>, outsiders: &[Oid]) {
        let log = std::fs::read_to_string(self.repo.path().join("logs/refs/heads/main")).unwrap();
        let mut arrived = BTreeSet::new();
        let moves = log.lines().map(|line| {
            let mut words = line.splitn(3, ' ');
            let mut oid = || words.next().unwrap().parse::<Oid>().unwrap();
            (oid(), oid(), words.next().unwrap())
        });
        for (old, new, mover) in moves.skip_while(|(_, new, _)| new != self.first).skip(1) {
            if !mover.starts_with(LANDING) {
                assert!(outsiders.contains(&new), "the base was moved to {new} outside the queue");
                continue;
            }
            let certificate = certified.get(&new).expect("the base moves only to what is certified");
            assert_eq!(old, certificate.base, "it moves from the tested parent only");
            assert!(arrived.insert(new), "it moves there once");
        }
        assert_eq!(arrived.len(), certified.len(), "every landing moved the base");
    }

    /// By the history: every commit of the base is an outsider's or a landing whose tree passed the check.
    fn what_landed_was_tested(&self, mut certified: BTreeMap<Oid, Certificate>, outsiders: &[Oid]) {
        let passed = std::fs::read_to_string(tested_log(self.repo)).unwrap_or_default();
        let tree = |commit: &str| self.repo.git(&["rev-parse", &format!("{commit}^{{tree}}")]);
        // What was tested and did not land may be pruned by now.
        let known = |commit: &&str| self.repo.try_git(&["cat-file", "-e", commit]).is_some();
        let tested: BTreeSet<String> = passed.lines().filter(known).map(tree).collect();
        let range = format!("{}..main", self.first);
        let moves = self.repo.git(&["rev-list", "--first-parent", &range]);
        for commit in moves.lines() {
            let commit: Oid = commit.parse().unwrap();
            if outsiders.contains(&commit) {
                continue;
            }
            let certificate = certified.remove(&commit).expect("the base moves only by a landing");
            let parent = self.repo.git(&["rev-parse", &format!("{commit}^1")]);
            assert_eq!(parent, certificate.base.to_string(), "from the tested parent");
            let landed = tree(commit.as_str());
            assert_eq!(landed, certificate.tree.to_string(), "the tree that is certified");
            assert!(tested.contains(&landed), "what landed was tested");
        }
        assert!(certified.is_empty(), "every landing is on the base: {certified:?}");
    }
}

fn the_queue_is_in_order(queue: &MergeQueue) {
    queue.validate().unwrap();
    let positions: Vec<usize> = queue.entries.iter().map(|entry| entry.position).collect();
    assert_eq!(positions, (0..queue.entries.len()).collect::<Vec<_>>(), "positions are contiguous");
    let changes: BTreeSet<&str> = queue.entries.iter().map(|entry| entry.pull_request.id.as_str()).collect();
    assert_eq!(changes.len(), queue.entries.len(), "one live entry per change");
}
