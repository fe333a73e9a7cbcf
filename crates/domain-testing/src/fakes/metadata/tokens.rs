//! API tokens.

use branchyard_auth::HashedToken;

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{LastUse, Token, User};
use branchyard_domain::ports::{MetadataError, TokenRepository, WriteKey};
use branchyard_domain::values::{AccountId, Timestamp, TokenId};

impl TokenRepository for MemoryTransaction<'_> {
    fn add(&mut self, token: &Token) -> Result<()> {
        self.needs(WriteKey::Account(token.user_id));
        if !self.state.users.contains_key(&token.user_id) {
            return Err(missing("add a token"));
        }
        if self.state.tokens.values().any(|other| other.hash == token.hash) {
            return Err(MetadataError::Taken);
        }
        self.change()?.tokens.insert(token.id, token.clone());
        Ok(())
    }

    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Token, User)>> {
        let Some(token) = self.state.tokens.values().find(|token| token.hash == *hash) else { return Ok(None) };
        let is_deleted = self.state.retired.contains_key(&token.user_id);
        Ok(self.state.users.get(&token.user_id).filter(|_| !is_deleted).map(|user| (token.clone(), user.clone())))
    }

    fn get(&mut self, id: TokenId) -> Result<Option<Token>> {
        Ok(self.state.tokens.get(&id).cloned())
    }

    fn list(&mut self, user: AccountId, after: Option<TokenId>, limit: usize) -> Result<Vec<Token>> {
        let of_user = self.state.tokens.values().rev().filter(|t| t.user_id == user);
        Ok(page(of_user.filter(|t| after.is_none_or(|after| t.id < after)).cloned(), limit))
    }

    fn count_live(&mut self, user: AccountId, now: Timestamp) -> Result<u64> {
        Ok(count(self.state.tokens.values().filter(|t| t.user_id == user && !t.expired(now)).count()))
    }

    fn remove(&mut self, user: AccountId, token: TokenId) -> Result<Option<Token>> {
        self.needs(WriteKey::Account(user));
        if self.state.tokens.get(&token).is_none_or(|t| t.user_id != user) {
            return Ok(None);
        }
        Ok(self.change()?.tokens.remove(&token))
    }

    fn touch(&mut self, token: TokenId, last_use: &LastUse) -> Result<()> {
        if let Some(token) = self.change()?.tokens.get_mut(&token) {
            token.last_use = Some(last_use.clone());
        }
        Ok(())
    }
}
