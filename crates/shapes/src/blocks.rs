//! Files of steps: how the answers come about that no rule provokes.

/// The steps to one snapshot.
#[derive(Debug)]
pub struct Block {
    /// Id of the operation.
    pub operation: String,
    /// Name of the snapshot.
    pub name: String,
    /// The steps, in order; the answer to the last one is the snapshot.
    pub steps: Vec<&'static str>,
}

/// The blocks of a file. A block begins with `= OPERATION NAME`; empty lines and lines that begin with `#` say nothing.
///
/// # Panics
/// When the file is not like that.
pub fn blocks(text: &'static str) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("= "), all.last_mut()) {
            (Some(head), _) => {
                let (operation, name) = head.split_once(' ').unwrap_or_else(|| panic!("no name in {line}"));
                all.push(Block { operation: operation.to_owned(), name: name.to_owned(), steps: Vec::new() });
            }
            (None, Some(block)) => block.steps.push(line),
            (None, None) => panic!("a block begins with =, not with {line}"),
        }
    }
    all
}
