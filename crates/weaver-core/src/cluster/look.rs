//! One look at who leads.

use crate::cluster::documents::{LeaderBody, NodeBody, leader_key, node_key, parse};
use crate::cluster::watch::Seen;
use crate::error::Result;
use crate::ports::Documents;

/// Reads the leader's document, and the heartbeat of the node that it names.
pub async fn look<D: Documents + ?Sized>(store: &D) -> Result<Seen> {
    let Some(document) = store.get_document(&leader_key()).await? else { return Ok(Seen::default()) };
    let mut seen = Seen { epoch: Some(document.version), ..Seen::default() };
    let Some(leader) = parse::<LeaderBody>(&document) else { return Ok(seen) };
    (seen.node, seen.host, seen.resigned) = (leader.node, leader.host, leader.resigned);
    if let Some(node) = &seen.node
        && let Some(heartbeat) = store.get_document(&node_key(node)).await?
    {
        seen.heartbeat = Some(heartbeat.version);
        seen.stopped = parse::<NodeBody>(&heartbeat).is_some_and(|node| node.stopped);
    }
    Ok(seen)
}
