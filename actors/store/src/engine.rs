//! The statements that a writer needs, for each kind of connection.

use futures::future::BoxFuture;
use sqlx::{Any, Database, Row, Sqlite};

/// A kind of connection that a [`crate::StoreWriter`] can write with.
pub trait StoreEngine: Database {
    /// Runs statements without parameters.
    fn run<'c>(connection: &'c mut Self::Connection, sql: &'static str) -> BoxFuture<'c, Result<(), sqlx::Error>>;

    /// Runs statements without parameters, of which one returns one number. They go to the database together. SQLite keeps them prepared;
    /// PostgreSQL prepares one statement at a time only.
    fn read_number<'c>(
        connection: &'c mut Self::Connection,
        sql: &'static str,
        is_sqlite: bool,
    ) -> BoxFuture<'c, Result<i64, sqlx::Error>>;
}

macro_rules! impl_store_engine {
    ($engine:ty) => {
        impl StoreEngine for $engine {
            fn run<'c>(
                connection: &'c mut Self::Connection,
                sql: &'static str,
            ) -> BoxFuture<'c, Result<(), sqlx::Error>> {
                Box::pin(async move { sqlx::raw_sql(sql).execute(connection).await.map(drop) })
            }

            fn read_number<'c>(
                connection: &'c mut Self::Connection,
                sql: &'static str,
                is_sqlite: bool,
            ) -> BoxFuture<'c, Result<i64, sqlx::Error>> {
                Box::pin(async move {
                    let rows = if is_sqlite {
                        sqlx::query(sql).fetch_all(connection).await?
                    } else {
                        sqlx::raw_sql(sql).fetch_all(connection).await?
                    };
                    rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)
                })
            }
        }
    };
}

impl_store_engine!(Any);
impl_store_engine!(Sqlite);
