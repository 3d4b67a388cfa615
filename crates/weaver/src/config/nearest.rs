//! The name that was probably meant.

/// The candidate that differs least, if it differs so little that it was probably meant.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = candidates.into_iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    let (distance, known) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= (name.chars().count() / 3).max(2)).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_and_another_word_does_not() {
        let known = ["store", "output", "worker.queues"];
        assert_eq!(nearest("stroe", known), Some("store"));
        assert_eq!(nearest("worker.queue", known), Some("worker.queues"));
        assert_eq!(nearest("colour_scheme", known), None);
    }
}
