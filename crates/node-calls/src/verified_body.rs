//! The body of a call, which ends with an error unless it has the hash that was signed.

use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use sha2::{Digest as _, Sha256};

use crate::statement::BodyHash;

/// Returns a body with the same content, or one that ends with an error if it has another hash. What reads it must not rely on it
/// before its end.
pub(crate) fn verified(body: Payload, hash: BodyHash) -> Payload {
    Payload::from(checked(body, hash).boxed_local())
}

fn checked(
    body: impl Stream<Item = Result<Bytes, PayloadError>> + Unpin,
    hash: BodyHash,
) -> impl Stream<Item = Result<Bytes, PayloadError>> {
    stream::try_unfold(Some((body, Sha256::new())), move |state| async move {
        let Some((mut body, mut hasher)) = state else { return Ok(None) };
        match body.next().await.transpose()? {
            Some(piece) => {
                hasher.update(&piece);
                Ok(Some((piece, Some((body, hasher)))))
            }
            None if <[u8; 32]>::from(hasher.finalize()) == hash => Ok(None),
            None => Err(PayloadError::EncodingCorrupted),
        }
    })
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;

    use super::*;

    async fn read(pieces: &[&'static [u8]], hash: BodyHash) -> Result<Vec<u8>, PayloadError> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::from_static(piece))).collect();
        let read: Vec<Bytes> = checked(stream::iter(pieces), hash).try_collect().await?;
        Ok(read.concat())
    }

    #[actix_web::test]
    async fn another_body_than_the_signed_one_ends_with_an_error() {
        let hash: BodyHash = Sha256::digest(b"abcdef").into();
        assert_eq!(read(&[b"abc", b"def"], hash).await.unwrap(), b"abcdef");
        for other in [&[b"abc".as_slice(), b"deg"][..], &[b"abcdefg"], &[b"abcde"], &[]] {
            assert!(read(other, hash).await.is_err());
        }
        let empty: BodyHash = Sha256::digest(b"").into();
        assert_eq!(read(&[], empty).await.unwrap(), b"");
    }
}
