//! The function that ikeanalyze/keys calls.

use super::dumps::Layout;
use super::lines::{self, Content, Patterns};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Start, beginning of the text, end and number of a line; whether it is a message of charon; and of a whole dump the
/// index of its label, its bytes, and whether its lines are indented (None: it has no lines).
type FoundLine<'py> = (
    usize,
    usize,
    usize,
    usize,
    bool,
    Option<(usize, Bound<'py, PyBytes>, Option<bool>)>,
);

/// Find the lines of a log that matter in `block` from `start` on, where a line begins.
///
/// `messages`: how messages begin, and phrases of which they have one, if there are any.
#[pyfunction]
fn find_log_lines<'py>(
    py: Python<'py>,
    block: &[u8],
    start: usize,
    labels: Vec<Bound<'py, PyBytes>>,
    messages: Vec<(Bound<'py, PyBytes>, Vec<Bound<'py, PyBytes>>)>,
) -> Vec<FoundLine<'py>> {
    let labels: Vec<&[u8]> = labels.iter().map(|label| label.as_bytes()).collect();
    let messages: Vec<(&[u8], Vec<&[u8]>)> = messages
        .iter()
        .map(|(beginning, phrases)| {
            let phrases = phrases.iter().map(|phrase| phrase.as_bytes()).collect();
            (beginning.as_bytes(), phrases)
        })
        .collect();
    let patterns = Patterns {
        labels: &labels,
        messages: &messages,
    };
    // another thread uses the lines that were found before
    let lines = py.detach(|| lines::find_lines(block, start, &patterns));
    lines
        .into_iter()
        .map(|line| {
            let is_message = line.content == Content::Message;
            let dump = match line.content {
                Content::Dump(label, dump) => {
                    let indented = (dump.layout != Layout::Empty).then_some(dump.layout == Layout::Indented);
                    Some((label, PyBytes::new(py, &dump.data), indented))
                }
                _ => None,
            };
            (line.start, line.text, line.end, line.number, is_message, dump)
        })
        .collect()
}

/// Add the function to the module `_core`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(find_log_lines, module)?)
}
