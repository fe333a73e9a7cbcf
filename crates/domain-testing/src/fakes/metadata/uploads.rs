//! Upload sessions.

use super::{MemoryTransaction, Result, count, page};
use branchyard_domain::entities::{Upload, UploadPart};
use branchyard_domain::ports::{MetadataError, UploadRepository, WriteKey};
use branchyard_domain::values::{AccountId, OperationId, Timestamp, UploadId};

impl UploadRepository for MemoryTransaction<'_> {
    fn add(&mut self, upload: &Upload) -> Result<()> {
        self.needs(WriteKey::Account(upload.user_id));
        if self.state.uploads.contains_key(&upload.id) {
            return Err(MetadataError::Taken);
        }
        self.change()?.uploads.insert(upload.id, upload.clone());
        Ok(())
    }

    fn get(&mut self, id: UploadId) -> Result<Option<Upload>> {
        Ok(self.state.uploads.get(&id).cloned())
    }

    fn put_part(&mut self, id: UploadId, part: &UploadPart) -> Result<()> {
        let upload = self.change()?.uploads.get_mut(&id).ok_or_else(|| super::missing("note a part"))?;
        upload.parts.retain(|other| other.number != part.number);
        upload.parts.push(part.clone());
        upload.parts.sort_by_key(|part| part.number);
        Ok(())
    }

    fn bind(&mut self, id: UploadId, operation: OperationId) -> Result<bool> {
        let upload = self.change()?.uploads.get_mut(&id).filter(|upload| upload.used_by.is_none());
        let Some(upload) = upload else { return Ok(false) };
        upload.used_by = Some(operation);
        Ok(true)
    }

    fn count_open(&mut self, user: AccountId, now: Timestamp) -> Result<u64> {
        let unused = self.state.uploads.values().filter(|u| u.user_id == user && u.used_by.is_none());
        Ok(count(unused.filter(|u| u.expires_at > now).count()))
    }

    fn remove(&mut self, id: UploadId) -> Result<()> {
        self.change()?.uploads.remove(&id);
        Ok(())
    }

    fn abandoned(&mut self, now: Timestamp, limit: usize) -> Result<Vec<UploadId>> {
        let over = |operation: OperationId| {
            self.state.operations.get(&operation).is_none_or(|leased| leased.operation.settled())
        };
        let abandoned = self.state.uploads.values().filter(|upload| match upload.used_by {
            None => upload.expires_at <= now,
            Some(operation) => over(operation),
        });
        Ok(page(abandoned.map(|upload| upload.id), limit))
    }
}
