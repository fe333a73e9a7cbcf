//! Signed URLs for the parts of uploads. A URL holds its expiry and signature and is itself the credential.

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
    /// Returns the URL of a part. It is valid for `part_url_seconds` from `now`.
    pub fn part_url(&self, urls: &Urls, upload: UploadId, number: u32, now: Timestamp) -> String {
        let expires = now.as_seconds().saturating_add(self.config.part_url_seconds);
        let signature = self.keys.sign_part(&signed_text(upload, number, expires));
        format!("{}/uploads/{upload}/{number}?expires={expires}&signature={signature}", urls.root())
    }

    /// Verifies the URL of a part, and returns the upload session and the number of the part.
    ///
    /// # Errors
    /// 403 if the URL is not valid or has expired.
    pub fn part_of(&self, upload: &str, number: &str, query: &str) -> Result<(UploadId, u32), HandlerError> {
        let refused = || Problem::new(ErrorCode::PermissionDenied, "the URL of the part is wrong or has expired");
        let read = Query::read(query, Repeats::Refused, |query| {
            Some((parse_http_seconds(query.optional("expires")?)?, query.optional("signature")?.to_owned()))
        });
        let (expires, signature) = read.map_err(|_| refused())?;
        let upload = UploadId::parse(upload).map_err(|_| refused())?;
        // A part has one URL. Other spellings of its number are refused.
        let number: u32 = number.parse().ok().filter(|n: &u32| n.to_string() == number).ok_or_else(refused)?;
        let genuine = self.keys.part_signed(&signed_text(upload, number, expires), &signature);
        if !genuine || self.services.now().as_seconds() >= expires {
            return Err(refused().into());
        }
        Ok((upload, number))
    }
}
