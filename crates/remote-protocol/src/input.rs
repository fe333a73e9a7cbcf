//! What is left of a message that is being parsed.

use crate::Hash;

/// A message that is not what the protocol demands. Holds the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

const CUT_OFF: Malformed = Malformed("it ends too early");

/// The rest of a message. Every length is compared with it before anything is allocated.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn hash(&mut self) -> Result<Hash, Malformed> {
        self.array()
    }

    /// Takes a text of a length.
    pub(crate) fn text_of(&mut self, length: usize) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed("a text is not UTF-8"))
    }

    /// Takes a text that follows its length.
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.u32()?;
        self.text_of(usize::try_from(length).map_err(|_| CUT_OFF)?)
    }

    /// Takes a list that follows its length. Each element has at least `least` bytes.
    pub(crate) fn list<T>(
        &mut self,
        least: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = usize::try_from(self.u32()?).map_err(|_| CUT_OFF)?;
        if count > self.0.len() / least {
            return Err(CUT_OFF);
        }
        (0..count).map(|_| element(self)).collect()
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("something follows its end")) }
    }
}
