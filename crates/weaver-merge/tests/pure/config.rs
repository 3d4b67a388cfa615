//! Fuzzed configurations: refused with a message that names the file, or round-tripped.

use weaver_merge::config::{CONFIG_PATH, MergeConfig};
use weaver_testkit::fuzz::Target;

fn read(input: &[u8]) -> String {
    let config = match MergeConfig::parse(input) {
        Ok(config) => config,
        Err(message) => {
            assert!(message.contains(CONFIG_PATH), "a message that does not say which file: {message}");
            // The lines before the last quote the file.
            return message.lines().next_back().unwrap_or_default().to_owned();
        }
    };
    let written = toml::to_string(&config).expect("what was read can be written");
    let again = MergeConfig::parse(written.as_bytes()).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again, config);
    assert_eq!(again.check_set(""), config.check_set(""));
    assert!(config.checks.iter().all(|check| config.check(&check.name).is_some()));
    format!("{} checks", if config.checks.len() > 1 { "many" } else { "one" })
}

const WORDS: &[&str] = &[
    "[[check]]\n",
    "[check]\n",
    "name = ",
    "command = ",
    "timeout_s = ",
    "on_push = ",
    "protected = ",
    "\"unit\"",
    "[\"true\"]",
    "'''",
    "\"\"\"",
    "\n",
    "18446744073709551615",
    "-1",
    "1979-05-27",
    "inf",
    "\\u0000",
    "#",
];

#[test]
fn fuzzed_configurations_are_refused_or_read_back_as_they_are_written() {
    Target::new("config", env!("CARGO_MANIFEST_DIR")).inputs(30_000).words(WORDS).run(read);
}
