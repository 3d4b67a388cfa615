//! The environment variables of an agent: the usual ones, and its task. The runner's secrets (its token, its
//! store's password) are not passed on.

use std::collections::BTreeSet;
use std::ffi::OsString;

use weaver_runtime::Ctx;

/// The usual variables, which every agent inherits.
const INHERITED: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "TMPDIR"];
/// Prefixes of such variables.
const INHERITED_PREFIXES: &[&str] = &["LC_", "XDG_"];
/// Weaver's own settings, including its token.
const OWN_PREFIX: &str = "WEAVER_";

/// A variable that must not be passed to an agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be passed to an agent: WEAVER_* variables belong to the runner")]
pub struct NotPassed(pub String);

/// The variables that an agent inherits: the usual ones, and those in `named`.
pub fn inherited(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    named: &BTreeSet<String>,
) -> Result<Vec<(OsString, OsString)>, NotPassed> {
    if let Some(own) = named.iter().find(|name| name.starts_with(OWN_PREFIX)) {
        return Err(NotPassed(own.clone()));
    }
    let is_passed = |name: &str| {
        INHERITED.contains(&name)
            || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || named.contains(name)
    };
    let variables = variables.into_iter();
    Ok(variables.filter(|(name, _)| name.to_str().is_some_and(is_passed)).collect())
}

/// The same for a confined agent: without directories that its sandbox does not have.
pub fn in_sandbox(inherited: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let passed = inherited.iter().filter(|(name, _)| name != "XDG_RUNTIME_DIR");
    passed
        .map(|(name, value)| match name.to_str() {
            Some("TMPDIR") => (name.clone(), "/tmp".into()),
            _ => (name.clone(), value.clone()),
        })
        .collect()
}

/// `WEAVER_*` variables with the task's ids, attempt and fencing token.
pub fn of_task(ctx: &Ctx) -> Vec<(OsString, OsString)> {
    let origin = ctx.record().spec.origin();
    let all = [
        ("WEAVER_TASK_ID", Some(ctx.record().shown_id())),
        ("WEAVER_NAMESPACE", Some(ctx.key().namespace.to_string())),
        ("WEAVER_TASK_GROUP_ID", origin.task_group_id.as_ref().map(ToString::to_string)),
        ("WEAVER_SESSION_ID", origin.session_id.as_ref().map(ToString::to_string)),
        ("WEAVER_ATTEMPT", Some(ctx.attempt().to_string())),
        ("WEAVER_FENCE", Some(ctx.fence().to_string())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(names: &[&str], named: &[&str]) -> Result<Vec<String>, NotPassed> {
        let variables = names.iter().map(|name| (OsString::from(name), OsString::from("x")));
        let named = named.iter().map(ToString::to_string).collect();
        let passed = inherited(variables, &named)?;
        Ok(passed.into_iter().map(|(name, _)| name.into_string().unwrap()).collect())
    }

    #[test]
    fn only_the_usual_variables_and_named_ones_are_passed_on() {
        let all = ["PATH", "LC_ALL", "WEAVER_TOKEN", "AWS_SECRET_ACCESS_KEY", "AGENT_KEY", "WEAVER_STORE"];
        assert_eq!(passed(&all, &[]).unwrap(), ["PATH", "LC_ALL"]);
        assert_eq!(passed(&all, &["AGENT_KEY"]).unwrap(), ["PATH", "LC_ALL", "AGENT_KEY"]);
    }

    #[test]
    fn a_confined_agent_gets_no_variable_for_a_directory_that_its_sandbox_lacks() {
        let outside = [("TMPDIR", "/scratch"), ("XDG_RUNTIME_DIR", "/run/user/7"), ("HOME", "/homes/a")];
        let outside = outside.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let inside = in_sandbox(&outside);
        assert_eq!(inside, [("TMPDIR".into(), "/tmp".into()), ("HOME".into(), "/homes/a".into())]);
    }

    #[test]
    fn the_runners_own_variables_cannot_be_named() {
        assert_eq!(passed(&[], &["WEAVER_TOKEN"]), Err(NotPassed("WEAVER_TOKEN".to_owned())));
    }
}
