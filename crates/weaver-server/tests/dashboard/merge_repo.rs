//! A repository with checks, and its merge queue.

use weaver_merge::domain::{QueueId, Repository};

use crate::repo::Repo;
use crate::site::Site;

/// Its check prints `output`, and fails where there is a file `bad`.
pub(crate) fn repository(output: &str) -> Repo {
    let config = format!(
        "[[check]]\nname = \"unit\"\ncommand = [\"sh\", \"-c\", '''echo '{output}'; test ! -e bad''']\n"
    );
    Repo::new(&[("README", "hello\n"), (".weaver/merge.toml", &config)])
}

pub(crate) async fn add_queue(site: &Site, repo: &Repo, name: &str) -> QueueId {
    let location = repo.path().to_str().expect("a path").to_owned();
    let repository = Repository { name: name.to_owned(), location };
    site.state.merge.add_queue(repository, "main").await.expect("a queue").id
}
