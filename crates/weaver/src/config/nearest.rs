//! "Did you mean": the nearest known name.

/// The candidate with the smallest edit distance, if that is at most a third of the name.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = candidates.into_iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    let (distance, known) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= (name.chars().count() / 3).max(2)).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_the_name_and_another_word_does_not() {
        let known = ["store", "output", "worker.queues"];
        assert_eq!(nearest("stroe", known), Some("store"));
        assert_eq!(nearest("worker.queue", known), Some("worker.queues"));
        assert_eq!(nearest("colour_scheme", known), None);
    }
}
