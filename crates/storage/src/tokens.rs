//! API tokens.

use branchyard_auth::HashedToken;
use branchyard_domain::entities::{LastUse, Token, User};
use branchyard_domain::ports::{MetadataError, TokenRepository, WriteKey};
use branchyard_domain::values::{AccountId, Timestamp, TokenId};
use diesel::prelude::*;

use crate::accounts::{AccountRow, EmailRow, UserOf, UserRow, first_with_user, with_user};
use crate::convert::{Read, all, count, limit, one, present, read, time};
use crate::schema::tokens;
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = tokens)]
pub(crate) struct TokenRow {
    id: String,
    user_id: String,
    name: String,
    hash: Vec<u8>,
    created_at: i64,
    expires_at: i64,
    last_used_at: Option<i64>,
    last_used_address: Option<String>,
    last_used_agent: Option<String>,
}

impl TokenRow {
    fn new(token: &Token) -> Self {
        let last_use = token.last_use.as_ref();
        Self {
            id: token.id.to_string(),
            user_id: token.user_id.to_string(),
            name: token.name.clone(),
            hash: token.hash.as_bytes().to_vec(),
            created_at: token.created_at.as_micros(),
            expires_at: token.expires_at.as_micros(),
            last_used_at: last_use.map(|last_use| last_use.at.as_micros()),
            last_used_address: last_use.map(|last_use| last_use.address.clone()),
            last_used_agent: last_use.map(|last_use| last_use.user_agent.clone()),
        }
    }

    pub(crate) fn token(self) -> Read<Token> {
        let last_use = match self.last_used_at {
            None => None,
            Some(at) => Some(LastUse {
                at: time(at),
                address: present("tokens.last_used_address", self.last_used_address)?,
                user_agent: present("tokens.last_used_agent", self.last_used_agent)?,
            }),
        };
        Ok(Token {
            id: read("tokens.id", self.id)?,
            user_id: read("tokens.user_id", self.user_id)?,
            name: self.name,
            hash: HashedToken::from_bytes(read("tokens.hash", self.hash)?),
            created_at: time(self.created_at),
            expires_at: time(self.expires_at),
            last_use,
        })
    }
}

impl TokenRepository for SqlTransaction {
    fn add(&mut self, token: &Token) -> Result<()> {
        self.needs(WriteKey::Account(token.user_id));
        self.run("add a token", |conn| {
            diesel::insert_into(tokens::table).values(TokenRow::new(token)).execute(conn)?;
            Ok(())
        })
    }

    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Token, User)>> {
        self.run("find a token", |conn| {
            let rows: Vec<UserOf<TokenRow>> = with_user!(tokens::table, tokens::user_id)
                .filter(tokens::hash.eq(hash.as_bytes().as_slice()))
                .select((
                    TokenRow::as_select(),
                    AccountRow::as_select(),
                    UserRow::as_select(),
                    Option::<EmailRow>::as_select(),
                ))
                .load(conn)?;
            first_with_user(rows)?.map(|(row, user)| Ok((row.token()?, user))).transpose()
        })
    }

    fn get(&mut self, id: TokenId) -> Result<Option<Token>> {
        self.run("read a token", |conn| {
            let row = tokens::table.find(id.to_string()).select(TokenRow::as_select()).first(conn).optional()?;
            one(row, TokenRow::token)
        })
    }

    fn list(&mut self, user: AccountId, after: Option<TokenId>, most: usize) -> Result<Vec<Token>> {
        self.run("list tokens", |conn| {
            let mut query = tokens::table.filter(tokens::user_id.eq(user.to_string())).into_boxed();
            if let Some(after) = after {
                query = query.filter(tokens::id.lt(after.to_string()));
            }
            let rows = query.order(tokens::id.desc()).limit(limit(most)).select(TokenRow::as_select()).load(conn)?;
            all(rows, TokenRow::token)
        })
    }

    fn count_live(&mut self, user: AccountId, now: Timestamp) -> Result<u64> {
        self.run("count tokens", |conn| {
            let rows = tokens::table
                .filter(tokens::user_id.eq(user.to_string()))
                .filter(tokens::expires_at.gt(now.as_micros()))
                .count()
                .get_result(conn)?;
            Ok(count(rows))
        })
    }

    fn remove(&mut self, user: AccountId, token: TokenId) -> Result<Option<Token>> {
        self.needs(WriteKey::Account(user));
        self.run("remove a token", |conn| {
            let row = tokens::table
                .filter(tokens::id.eq(token.to_string()))
                .filter(tokens::user_id.eq(user.to_string()))
                .select(TokenRow::as_select())
                .first(conn)
                .optional()?;
            if row.is_some() {
                diesel::delete(tokens::table.find(token.to_string())).execute(conn)?;
            }
            one(row, TokenRow::token)
        })
    }

    fn touch(&mut self, token: TokenId, last_use: &LastUse) -> Result<()> {
        self.run("note the use of a token", |conn| {
            diesel::update(tokens::table.find(token.to_string()))
                .set((
                    tokens::last_used_at.eq(last_use.at.as_micros()),
                    tokens::last_used_address.eq(&last_use.address),
                    tokens::last_used_agent.eq(&last_use.user_agent),
                ))
                .execute(conn)?;
            Ok(())
        })
    }
}
