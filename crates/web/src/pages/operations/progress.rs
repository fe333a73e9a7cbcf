//! How far a running operation is, in words and for a bar.

use branchyard_domain::usecases::{OperationProgress, ProgressStage};
use branchyard_domain::values::Timestamp;

use crate::format;

/// The progress of a running operation.
pub(crate) struct ProgressView {
    /// The stage, with what is done of it.
    pub(crate) text: String,
    /// What is done, and the whole. `None` if the whole is not known.
    pub(crate) bar: Option<(u64, u64)>,
    /// The rate, once it is known.
    pub(crate) rate: Option<String>,
    /// The time that the rest of the stage takes, once it is known.
    pub(crate) left: Option<String>,
}

impl ProgressView {
    pub(crate) fn of(progress: &OperationProgress, now: Timestamp) -> Self {
        let OperationProgress { stage, done, total, .. } = *progress;
        if stage != ProgressStage::CheckingFile && total.is_some_and(|total| done >= total) {
            return Self { text: "Finishing".to_owned(), bar: Some((1, 1)), rate: None, left: None };
        }
        let stage_text = match stage {
            ProgressStage::CheckingFile => "Checking the file",
            ProgressStage::WritingRows => "Writing rows",
            ProgressStage::RunningScript => "Running the script",
        };
        let amount = |amount: u64| match stage {
            ProgressStage::WritingRows => format::counted(amount, "row", "rows"),
            ProgressStage::CheckingFile | ProgressStage::RunningScript => format::size(amount),
        };
        let text = match total {
            Some(total) => format!("{stage_text}: {} of {}", amount(done), amount(total)),
            None => format!("{stage_text}: {}", amount(done)),
        };
        let rate = progress.per_second(now).filter(|rate| *rate > 0);
        Self {
            text,
            bar: total.filter(|total| *total > 0).map(|total| (done, total)),
            rate: rate.map(|rate| format!("{} a second", amount(rate))),
            left: progress.seconds_left(now).map(|seconds| format!("about {} left", duration(seconds))),
        }
    }
}

/// Formats a number of seconds with its largest unit, or its two largest.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{} s", seconds.max(1)),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::usecases::{OperationProgress, ProgressStage};
    use branchyard_domain::values::Timestamp;

    use super::{ProgressView, duration};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn rows_and_bytes_have_their_units() {
        let writing = OperationProgress {
            stage: ProgressStage::WritingRows,
            done: 50_000,
            total: Some(200_000),
            began_at: at(0),
        };
        let view = ProgressView::of(&writing, at(2));
        assert_eq!(
            (view.text.as_str(), view.bar),
            ("Writing rows: 50,000 rows of 200,000 rows", Some((50_000, 200_000)))
        );
        assert_eq!(view.rate.as_deref(), Some("25,000 rows a second"));
        assert_eq!(view.left.as_deref(), Some("about 6 s left"));
        let early = ProgressView::of(&writing, at(0));
        assert_eq!((early.rate, early.left), (None, None));
        let checking = OperationProgress { stage: ProgressStage::CheckingFile, done: 2 << 20, ..writing };
        let view = ProgressView::of(&OperationProgress { total: Some(8 << 20), ..checking }, at(1));
        assert_eq!(view.text, "Checking the file: 2.0 MiB of 8.0 MiB");
        assert_eq!(view.rate.as_deref(), Some("2.0 MiB a second"));
        let unknown = ProgressView::of(&OperationProgress { total: None, ..writing }, at(2));
        assert_eq!((unknown.text.as_str(), unknown.bar, unknown.left), ("Writing rows: 50,000 rows", None, None));
        let done = ProgressView::of(&OperationProgress { done: 200_000, ..writing }, at(2));
        assert_eq!((done.text.as_str(), done.bar), ("Finishing", Some((1, 1))));
    }

    #[test]
    fn a_duration_has_two_units_at_most() {
        let cases = [(0, "1 s"), (59, "59 s"), (60, "1 min 0 s"), (3_599, "59 min 59 s"), (7_260, "2 h 1 min")];
        for (seconds, text) in cases {
            assert_eq!(duration(seconds), text);
        }
    }
}
