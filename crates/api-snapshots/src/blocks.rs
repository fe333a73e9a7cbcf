//! A file format for steps that lead to a response. Used for responses that no generic rule can provoke.

/// The steps that lead to one snapshot.
#[derive(Debug)]
pub struct Block {
    /// Id of the operation in the OpenAPI document.
    pub operation: String,
    /// Name of the snapshot.
    pub name: String,
    /// The steps in order. The response to the last one is compared with the snapshot.
    pub steps: Vec<&'static str>,
}

impl Block {
    /// Returns the reason why no test can provoke this response; `None` if the block has steps. The reason is the text after
    /// `unprovoked` in the only line of the block.
    pub fn unprovoked(&self) -> Option<&'static str> {
        match self.steps[..] {
            [step] => step.strip_prefix("unprovoked "),
            _ => None,
        }
    }
}

/// Parses the blocks of a file. A block begins with a line `= OPERATION NAME`. Empty lines and lines that begin with `#` are
/// ignored.
///
/// # Panics
/// Panics if a step precedes the first block, or if a block has no name.
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
