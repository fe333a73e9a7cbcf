//! Lists of hashes, and chunks with and without them.

use crate::input::{Input, Malformed};
use crate::{Hash, hash_of};

/// Length of a hash in bytes.
pub const HASH_BYTES: usize = 20;
/// Maximum number of hashes of a request.
pub const MOST_HASHES: usize = 4_096;
/// Stands for a chunk that is absent, in place of its length.
const ABSENT: u32 = u32::MAX;

/// An uploaded chunk: its hash, and its content.
pub type Record<'a> = (Hash, &'a [u8]);

/// Encodes a request that names chunks.
#[must_use]
pub fn encode_hashes(hashes: &[Hash]) -> Vec<u8> {
    hashes.as_flattened().to_vec()
}

/// Parses a request that names chunks.
///
/// # Errors
/// [`Malformed`] unless the body is a list of 1 to 4,096 hashes.
pub fn parse_hashes(body: &[u8]) -> Result<Vec<Hash>, Malformed> {
    let (hashes, rest) = body.as_chunks::<HASH_BYTES>();
    if hashes.is_empty() || !rest.is_empty() || hashes.len() > MOST_HASHES {
        return Err(Malformed("the body must be 1 to 4096 hashes of 20 bytes each"));
    }
    Ok(hashes.to_vec())
}

/// Appends an uploaded chunk to the body of a request.
pub fn encode_record(out: &mut Vec<u8>, content: &[u8]) {
    out.extend(hash_of(content));
    // No chunk comes near the maximum.
    out.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(content);
}

/// Parses uploaded chunks. Whether a chunk has the hash that it comes with is not looked at.
///
/// # Errors
/// [`Malformed`] if the last one is cut off.
pub fn parse_records(body: &[u8]) -> Result<Vec<Record<'_>>, Malformed> {
    let (mut input, mut records) = (Input(body), Vec::new());
    while !input.0.is_empty() {
        let (hash, length) = (input.hash()?, input.u32()?);
        let length = usize::try_from(length).map_err(|_| Malformed("a chunk is too long"))?;
        records.push((hash, input.take(length)?));
    }
    Ok(records)
}

/// Parses the answer to a request for `count` chunks, `None` for each that is absent. Whether a chunk has the hash that was asked
/// for is not looked at.
///
/// # Errors
/// [`Malformed`] if it has not as many.
pub fn found_chunks(body: &[u8], count: usize) -> Result<Vec<Option<&[u8]>>, Malformed> {
    let (mut input, mut chunks) = (Input(body), Vec::new());
    for _ in 0..count {
        // Lengths are big-endian in this message alone.
        let length = input.array().map(u32::from_be_bytes)?;
        let chunk = match length {
            ABSENT => None,
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed("a chunk is too long"))?;
                Some(input.take(length)?)
            }
        };
        chunks.push(chunk);
    }
    input.end()?;
    Ok(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::tests::bytes;

    #[test]
    fn the_published_examples_are_encoded_and_parsed() {
        let mut record = Vec::new();
        encode_record(&mut record, b"abc");
        assert_eq!(record, bytes("6437b3ac38465133ffb63b75273a8db548c5584603000000616263"));
        assert_eq!(parse_records(&record).unwrap(), [(hash_of(b"abc"), &b"abc"[..])]);
        assert_eq!(found_chunks(&bytes("00000003616263ffffffff"), 2).unwrap(), [Some(&b"abc"[..]), None]);
        assert_eq!(hash_of(b"")[..], bytes("af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9"));
    }

    #[test]
    fn a_list_of_hashes_has_one_to_4096() {
        assert_eq!(parse_hashes(&encode_hashes(&[[7; 20]; 2])).unwrap(), [[7; 20]; 2]);
        assert_eq!(parse_hashes(&vec![7; MOST_HASHES * HASH_BYTES]).unwrap().len(), MOST_HASHES);
        for length in [0, 1, 19, 21, (MOST_HASHES + 1) * HASH_BYTES] {
            assert!(parse_hashes(&vec![7; length]).is_err(), "{length}");
        }
    }

    #[test]
    fn records_and_answers_that_are_cut_off_or_go_on_are_malformed() {
        let mut records = Vec::new();
        encode_record(&mut records, b"abc");
        let one = records.len();
        encode_record(&mut records, b"");
        assert_eq!(parse_records(&records).unwrap().len(), 2);
        for length in (1..one).chain(one + 1..records.len()) {
            assert!(parse_records(&records[..length]).is_err(), "{length}");
        }
        assert!(parse_records(&[]).unwrap().is_empty());
        let answer = bytes("00000003616263ffffffff");
        assert!(found_chunks(&answer, 1).is_err());
        assert!(found_chunks(&answer, 3).is_err());
        assert!(found_chunks(&answer[..5], 1).is_err());
    }
}
