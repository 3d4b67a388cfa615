//! Documents: a version that was acknowledged stays until a later one, and never means another body.

use std::collections::{BTreeMap, HashMap};

use super::Findings;
use crate::wire::{Answer, Line, Request};

#[derive(Debug, Default)]
struct Document {
    bodies: BTreeMap<u64, String>,
    /// The newest version seen in earlier lives, and whether its deletion was acknowledged.
    floor: (u64, bool),
    /// The same for this life.
    acknowledged: (u64, bool),
    /// The newest version that a client requested to delete.
    deleting: u64,
    /// Bodies of all requested writes, answered or not.
    open: Vec<String>,
}

pub(super) fn check(lives: &[Vec<Line>], findings: &mut Findings) {
    let mut documents: BTreeMap<String, Document> = BTreeMap::new();
    for (life, lines) in lives.iter().enumerate() {
        let mut asked: HashMap<u64, &Request> = HashMap::new();
        for line in lines {
            match line {
                Line::Request(call, request) => {
                    asked.insert(*call, request);
                    match request {
                        Request::Put { id, body, .. } => {
                            documents.entry(id.clone()).or_default().open.push(body.clone());
                        }
                        Request::Delete { id, version } => {
                            let document = documents.entry(id.clone()).or_default();
                            document.deleting = document.deleting.max(*version);
                        }
                        _ => {}
                    }
                }
                Line::Answer(call, acknowledged) => match (asked.get(call), acknowledged) {
                    (Some(Request::Put { id, after, body }), Answer::Version(version)) => {
                        let document = documents.entry(id.clone()).or_default();
                        document.put(id, *after, *version, body, findings);
                    }
                    (Some(Request::Delete { id, version }), Answer::Done) => {
                        let document = documents.entry(id.clone()).or_default();
                        document.acknowledged = document.acknowledged.max((*version, true));
                    }
                    _ => {}
                },
                Line::SawDocument { id, found } => {
                    let document = documents.entry(id.clone()).or_default();
                    document.saw(life, id, found.as_ref(), findings);
                }
                _ => {}
            }
        }
        documents
            .values_mut()
            .for_each(|document| document.floor = document.floor.max(document.acknowledged));
    }
}

impl Document {
    fn put(&mut self, id: &str, after: Option<u64>, version: u64, body: &str, findings: &mut Findings) {
        findings.hold(version > after.unwrap_or(0).max(self.floor.0), "G1", || {
            format!("{id} was at version {after:?}, {:?} before this life, and became {version}", self.floor)
        });
        self.means(id, version, body, findings);
        self.acknowledged = self.acknowledged.max((version, false));
    }

    fn means(&mut self, id: &str, version: u64, body: &str, findings: &mut Findings) {
        let known = self.bodies.entry(version).or_insert_with(|| body.to_owned());
        findings.hold(known == body, "G1", || {
            format!("version {version} of {id} is {body}, and was acknowledged as {known}")
        });
    }

    fn saw(&mut self, life: usize, id: &str, found: Option<&(u64, String)>, findings: &mut Findings) {
        match found {
            Some((version, body)) => {
                let fits = (*version, false) >= self.floor;
                findings.hold(fits, "G1", || {
                    format!("life {life} found {id} at version {version}, after {:?}", self.floor)
                });
                findings.hold(self.open.contains(body), "G1", || format!("{id}: {body} was never written"));
                self.means(id, *version, body, findings);
                self.acknowledged = self.acknowledged.max((*version, false));
            }
            None => findings.hold(self.deleting >= self.floor.0, "G1", || {
                format!("life {life} did not find {id}, which was at version {}", self.floor.0)
            }),
        }
    }
}
