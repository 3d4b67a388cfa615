//! The options of `cargo xtask test`.

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options {
    /// Run every step, whatever fails.
    pub(crate) keep_going: bool,
    /// Run every case of the enumerations that the gate samples.
    pub(crate) all: bool,
    /// Only what differs from this commit, and what depends on it.
    pub(crate) changed: Option<String>,
    /// Repeat the tests this often beside busy cores.
    pub(crate) stress: Option<u32>,
}

/// What `--changed` compares with by default.
const BASE: &str = "main";

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.iter().peekable();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--keep-going" => options.keep_going = true,
                "--all" => options.all = true,
                "--changed" => {
                    let base = args.next_if(|next| !next.starts_with('-'));
                    options.changed = Some(base.map_or(BASE, String::as_str).to_owned());
                }
                "--stress" => {
                    let count = args.next().and_then(|count| count.parse().ok()).filter(|count| *count > 0);
                    options.stress = Some(count.ok_or("--stress needs how often, such as `--stress 5`")?);
                }
                unknown => {
                    return Err(format!(
                        "no option `{unknown}` here; there are --keep-going, --all, --changed [BASE], \
                         --stress N"
                    ));
                }
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn each_option_is_read() {
        assert_eq!(parse(""), Ok(Options::default()));
        assert_eq!(
            parse("--keep-going --all"),
            Ok(Options { keep_going: true, all: true, ..Options::default() })
        );
        assert_eq!(parse("--stress 5"), Ok(Options { stress: Some(5), ..Options::default() }));
    }

    #[test]
    fn changed_compares_with_main_unless_told() {
        let changed = |line| parse(line).unwrap().changed;
        assert_eq!(changed("--changed").as_deref(), Some("main"));
        assert_eq!(changed("--changed HEAD~3").as_deref(), Some("HEAD~3"));
        assert_eq!(changed("--changed --all").as_deref(), Some("main"));
    }

    #[test]
    fn a_misspelt_option_and_a_missing_number_are_refused() {
        assert!(parse("--keepgoing").unwrap_err().contains("--keep-going"));
        assert!(parse("--stress").unwrap_err().contains("--stress 5"));
        assert!(parse("--stress 0").is_err());
    }
}
