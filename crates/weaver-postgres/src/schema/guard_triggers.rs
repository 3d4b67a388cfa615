//! The net: triggers that refuse what the state machine does not allow, whoever writes it. Generated from core's table,
//! so that there is one.

use weaver_core::lifecycle::table::RULES;
use weaver_core::projection::seed_004::State;
use weaver_core::task::TaskState;

/// Every move of the table in the words of the seed, each once.
pub fn allowed_moves() -> Vec<(State, State)> {
    let mut moves = Vec::new();
    for rule in RULES {
        let pair = (State::project(rule.from, None), State::project(rule.to, rule.cause));
        if !moves.contains(&pair) {
            moves.push(pair);
        }
    }
    moves
}

/// The triggers.
pub(super) fn net_sql() -> String {
    let mut cases = String::new();
    // Most moves begin where a run is taken or runs: those are looked at first.
    for from in [State::Pending, State::Running, State::RetryScheduled, State::Assigned, State::Orphaned] {
        let targets: Vec<_> = allowed_moves()
            .into_iter()
            .filter(|(source, _)| *source == from)
            .map(|(_, to)| format!("'{to}'"))
            .collect();
        cases += &format!("        WHEN '{from}' THEN NEW.state IN ({})\n", targets.join(", "));
    }
    let terminal: Vec<_> =
        State::ALL.iter().filter(|word| is_terminal(**word)).map(|word| format!("'{word}'")).collect();
    include_str!("net.sql").replace("{cases}", cases.trim_end()).replace("{terminal}", &terminal.join(", "))
}

fn is_terminal(word: State) -> bool {
    TaskState::ALL.into_iter().filter(|state| state.is_terminal()).any(|state| {
        let causes = RULES.iter().filter(|rule| rule.to == state).map(|rule| rule.cause);
        causes.into_iter().any(|cause| State::project(state, cause) == word)
    })
}
