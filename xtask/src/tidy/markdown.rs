//! Just enough of Markdown: links, headings and tables outside code.

use std::collections::HashMap;

/// A line outside fenced code, with its number counted from 1.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    lines(text).filter_map(|(number, line, is_code)| (!is_code).then_some((number, line)))
}

/// The lines of fenced code, with their numbers.
pub(crate) fn code(text: &str) -> Vec<(usize, &str)> {
    lines(text).filter_map(|(number, line, is_code)| is_code.then_some((number, line))).collect()
}

/// Lines with their number and whether they are in fenced code; the fences themselves are left out.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (open, _) => return Some((index + 1, line, open.is_some())),
        }
        None
    })
}

/// Targets of inline links, images and reference definitions, with their line numbers.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        if let Some((label, target)) = line.trim_start().split_once("]: ")
            && label.starts_with('[')
        {
            found.push((number, target_of(target)));
        }
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            found.push((number, target_of(&rest[..closing(rest)])));
        }
    }
    found
}

/// Anchors a page offers, as the usual renderers make them: headings, and explicit `id="…"`.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() < line.len() && title.starts_with(' ') {
            let slug = slug(title.trim());
            let count = seen.entry(slug.clone()).or_default();
            anchors.push(if *count == 0 { slug } else { format!("{slug}-{count}") });
            *count += 1;
        }
        let ids = line.split("id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
        anchors.extend(ids.map(|(id, _)| id.to_owned()));
    }
    anchors
}

/// Names in backticks.
pub(crate) fn code_spans(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).map(str::trim).filter(|span| !span.is_empty()).collect()
}

/// The last cell of every row of every table, with its line number. Headers are left out.
pub(crate) fn last_cells(text: &str) -> Vec<(usize, String)> {
    titled_last_cells(text).into_iter().map(|(number, _, cell)| (number, cell)).collect()
}

/// The same, only of tables whose last column has this title.
pub(crate) fn last_cells_under(text: &str, title: &str) -> Vec<(usize, String)> {
    let cells = titled_last_cells(text).into_iter();
    cells.filter(|(_, found, _)| found == title).map(|(number, _, cell)| (number, cell)).collect()
}

/// Line, the title of the column, and the cell.
fn titled_last_cells(text: &str) -> Vec<(usize, String, String)> {
    let mut cells = Vec::new();
    let mut title = String::new();
    let mut in_body = false;
    for (number, line) in prose(text) {
        let line = line.trim();
        if !line.starts_with('|') {
            in_body = false;
            continue;
        }
        if line.contains("--") && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ')) {
            in_body = true;
            continue;
        }
        // An escaped pipe belongs to its cell; NUL cannot be in a text file.
        let line = line.replace("\\|", "\0");
        let row = line.strip_suffix('|').unwrap_or(&line);
        let cell = row.rsplit('|').next().unwrap_or_default().trim().replace('\0', "|");
        if in_body {
            cells.push((number, title.clone(), cell));
        } else {
            title = cell;
        }
    }
    cells
}

fn slug(title: &str) -> String {
    // A link in a heading shows its text only.
    let title = match (title.find("]("), title.find('[')) {
        (Some(middle), Some(open)) if open < middle => {
            let end = middle + 2 + closing(&title[middle + 2..]) + 1;
            format!("{}{}{}", &title[..open], &title[open + 1..middle], title.get(end..).unwrap_or_default())
        }
        _ => title.to_owned(),
    };
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Where the parenthesis that is already open closes; targets may contain pairs of their own.
fn closing(rest: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return at,
            ')' => depth -= 1,
            _ => {}
        }
    }
    rest.len()
}

/// The target without angle brackets and title.
fn target_of(inside: &str) -> String {
    let inside = inside.trim();
    match inside.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((target, _)) => target.to_owned(),
        None => inside.split_whitespace().next().unwrap_or_default().to_owned(),
    }
}

/// Code on one line cannot hold links; its text is dropped and the rest keeps its order.
fn without_code(line: &str) -> String {
    if line.matches('`').count() < 2 {
        return line.to_owned();
    }
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
