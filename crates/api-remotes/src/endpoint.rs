//! The endpoints of the protocol.

/// An endpoint, by the last segment of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteEndpoint {
    /// `GET refs`: branches and tags.
    Refs,
    /// `POST get-chunks`: the content of chunks.
    GetChunks,
    /// `POST has-chunks`: the chunks that a push need not send.
    HasChunks,
    /// `POST chunks`: the chunks of a push.
    Chunks,
    /// `PUT refs-if`: moves a branch or tag.
    RefsIf,
    /// `POST commit`: ends a push.
    Commit,
}

impl RemoteEndpoint {
    /// All endpoints.
    pub const ALL: [Self; 6] = [Self::Refs, Self::GetChunks, Self::HasChunks, Self::Chunks, Self::RefsIf, Self::Commit];

    /// Returns the last segment of the path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refs => "refs",
            Self::GetChunks => "get-chunks",
            Self::HasChunks => "has-chunks",
            Self::Chunks => "chunks",
            Self::RefsIf => "refs-if",
            Self::Commit => "commit",
        }
    }
}
