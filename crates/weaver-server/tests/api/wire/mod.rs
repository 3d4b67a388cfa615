//! The whole wire format as one text file, so that a change of a field, a type or a word is a line in a diff.

mod describe;
mod examples;

use std::path::Path;

const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/wire/snapshot.txt");
/// Set to `1`, it writes the file instead of comparing with it.
const UPDATE: &str = "WEAVER_UPDATE_WIRE_SNAPSHOT";

const HEADER: &str = "\
# Every field, type and word of Weaver's HTTP API, by the test `the_wire_is_what_its_snapshot_says`.
# A removed or renamed line breaks clients. `name?` may be left out; `= a | b` are all the words there are.
";

#[test]
fn the_wire_is_what_its_snapshot_says() {
    let document = weaver_server::api::document();
    let now = [HEADER, &describe::document(&document), &examples::all()].join("\n");
    if std::env::var(UPDATE).as_deref() == Ok("1") {
        std::fs::write(SNAPSHOT, &now).expect("the snapshot can be written");
        return;
    }
    let before = std::fs::read_to_string(Path::new(SNAPSHOT)).expect("the snapshot is in the repository");
    assert!(
        before == now,
        "the wire changed:\n{}\nIf that is meant, write the snapshot with `{UPDATE}=1 cargo nextest run -p weaver-server \
         --test api the_wire_is_what_its_snapshot_says`, review its diff line by line (clients of older versions read and \
         send the lines that go), and commit it with the change.",
        differences(&before, &now).join("\n"),
    );
}

/// The lines that only one of them has, each with the line above it that is not indented.
fn differences(before: &str, now: &str) -> Vec<String> {
    let (before, now) = (with_context(before), with_context(now));
    let gone =
        before.iter().filter(|line| !now.contains(line)).map(|(above, line)| format!("- {above}: {line}"));
    let new =
        now.iter().filter(|line| !before.contains(line)).map(|(above, line)| format!("+ {above}: {line}"));
    gone.chain(new).collect()
}

fn with_context(text: &str) -> Vec<(&str, &str)> {
    let mut above = "";
    let lines = text.lines().map(|line| {
        if !line.starts_with(' ') {
            above = line;
        }
        (above, line.trim())
    });
    lines.collect()
}
