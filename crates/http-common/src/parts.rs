//! Addresses of upload parts: they carry their own expiry and a signature, and are the credential.

use branchyard_domain::values::{Timestamp, UploadId};
use branchyard_problem_details::{ErrorCode, Problem};

use crate::handler_error::HandlerError;
use crate::query::{Query, Repeats};
use crate::state::Shared;
use crate::time::parse_http_seconds;
use crate::urls::Urls;

fn signed_text(upload: UploadId, number: u32, expires: i64) -> String {
    format!("{upload}|{number}|{expires}")
}

impl Shared {
    /// The address of a part, good from `now` for as long as the configuration says.
    pub fn part_url(&self, urls: &Urls, upload: UploadId, number: u32, now: Timestamp) -> String {
        let expires = now.as_seconds().saturating_add(self.config.part_url_seconds);
        let signature = self.keys.sign_part(&signed_text(upload, number, expires));
        format!("{}/uploads/{upload}/{number}?expires={expires}&signature={signature}", urls.root())
    }

    /// The session and the part that an address names.
    ///
    /// # Errors
    /// 403 when it is not one of ours, or has expired.
    pub fn part_of(&self, upload: &str, number: &str, query: &str) -> Result<(UploadId, u32), HandlerError> {
        let refused = || Problem::new(ErrorCode::PermissionDenied, "the address of the part is wrong or has expired");
        let read = Query::read(query, Repeats::Refused, |query| {
            Some((parse_http_seconds(query.optional("expires")?)?, query.optional("signature")?.to_owned()))
        });
        let (expires, signature) = read.map_err(|_| refused())?;
        let upload = UploadId::parse(upload).map_err(|_| refused())?;
        // One address a part: other spellings of its number were never given out.
        let number: u32 = number.parse().ok().filter(|n: &u32| n.to_string() == number).ok_or_else(refused)?;
        let genuine = self.keys.part_signed(&signed_text(upload, number, expires), &signature);
        if !genuine || self.hub.now().as_seconds() >= expires {
            return Err(refused().into());
        }
        Ok((upload, number))
    }
}
