//! Streams: appends are there, complete and in order, and nothing else is.

use std::collections::{BTreeMap, HashMap};

use super::Findings;
use crate::wire::{Answer, Line, Request};

/// One append: its entries, the number it was answered with, and the last number acknowledged to any client
/// before the request.
struct Append<'a> {
    bodies: &'a [String],
    last: Option<u64>,
    after: u64,
}

pub(super) fn check(lives: &[Vec<Line>], findings: &mut Findings) {
    let mut appends: BTreeMap<&str, Vec<Append<'_>>> = BTreeMap::new();
    let mut newest: HashMap<&str, u64> = HashMap::new();
    for lines in lives {
        let mut asked: HashMap<u64, (&str, usize)> = HashMap::new();
        for line in lines {
            match line {
                Line::Request(call, Request::Append { stream, bodies }) => {
                    let list = appends.entry(stream).or_default();
                    asked.insert(*call, (stream, list.len()));
                    let after = newest.get(stream.as_str()).copied().unwrap_or(0);
                    list.push(Append { bodies, last: None, after });
                }
                Line::Answer(call, Answer::Appended(last)) => {
                    let Some((stream, place)) = asked.get(call) else { continue };
                    if let Some(append) = appends.get_mut(stream).and_then(|list| list.get_mut(*place)) {
                        append.last = Some(*last);
                    }
                    let newest = newest.entry(stream).or_default();
                    *newest = (*newest).max(*last);
                }
                Line::SawStream { stream, entries } => {
                    let list = appends.get(stream.as_str()).map(Vec::as_slice).unwrap_or_default();
                    compare(stream, entries, list, findings);
                }
                _ => {}
            }
        }
    }
}

fn compare(stream: &str, entries: &[(u64, String)], appends: &[Append<'_>], findings: &mut Findings) {
    let numbered = entries.iter().zip(1..).all(|((seq, _), expected)| *seq == expected);
    findings.hold(numbered, "G1", || format!("the numbers of {stream} have a gap"));
    let places: HashMap<&str, u64> = entries.iter().map(|(seq, body)| (body.as_str(), *seq)).collect();
    findings.hold(places.len() == entries.len(), "G1", || format!("{stream} has an entry twice"));
    let mut explained = 0;
    for Append { bodies, last, after } in appends {
        let seqs: Vec<u64> = bodies.iter().filter_map(|body| places.get(body.as_str()).copied()).collect();
        explained += seqs.len();
        let whole = seqs.len() == bodies.len() && seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let found = seqs.last().copied();
        match last {
            Some(last) => findings.hold(whole && found == Some(*last), "G1", || {
                format!("{bodies:?} were acknowledged in {stream} up to {last}, and are {seqs:?}")
            }),
            None => findings.hold(whole || seqs.is_empty(), "G1", || {
                format!("{bodies:?} are in {stream} in part: {seqs:?}")
            }),
        }
        findings.hold(seqs.first().is_none_or(|first| first > after), "G1", || {
            format!("{bodies:?} were requested in {stream} after {after} was acknowledged, and are {seqs:?}")
        });
    }
    findings.hold(explained == entries.len(), "G1", || {
        format!("{} entries of {stream} were never appended", entries.len() - explained)
    });
}
