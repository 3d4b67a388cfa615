//! The namespaces that a caller sees.

use axum::Json;
use axum::extract::State;
use weaver_api::{NamespaceItem, Page, PageQuery};
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Page as StorePage};

use super::caller::Caller;
use super::extract::Params;
use super::{Answer, AppState};

/// The namespaces that have anything in them.
#[utoipa::path(get, path = "/api/v1/namespaces", tag = "namespaces", params(PageQuery),
    responses((status = 200, description = "A page of namespaces, by name", body = Page<NamespaceItem>)))]
pub(crate) async fn list_namespaces(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<PageQuery>,
) -> Answer<Json<Page<NamespaceItem>>> {
    let limit = state.page(query.limit)?;
    let page = visible(&state, &caller, query.cursor.map(Cursor), limit).await?;
    let items = page.items.iter().map(|namespace| NamespaceItem { name: namespace.to_string() }).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}

/// A page of what the caller sees. A store's cursor names the last namespace of a page, whoever may see it:
/// it goes to callers alone who see them all. The others have a few namespaces, which are looked for, and
/// cursors made of those.
pub(crate) async fn visible(
    state: &AppState,
    caller: &Caller,
    cursor: Option<Cursor>,
    limit: u32,
) -> Answer<StorePage<Namespace>> {
    let Some(scope) = caller.scope() else {
        return Ok(state.store.list_namespaces(cursor, limit).await?);
    };
    let after = cursor.map(|Cursor(text)| Namespace::new(text)).transpose()?;
    let mut found = existing(state, scope).await?;
    found.retain(|namespace| after.as_ref().is_none_or(|after| namespace > after));
    let is_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| is_more).map(|last| Cursor(last.to_string()));
    Ok(StorePage { items: found, complete: next.is_none(), next })
}

/// Those of a scope that have anything in them, by name.
async fn existing(state: &AppState, scope: &[Namespace]) -> Answer<Vec<Namespace>> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = state.store.list_namespaces(cursor, PAGE_MAX).await?;
        found.extend(page.items.into_iter().filter(|namespace| scope.contains(namespace)));
        cursor = page.next;
        if cursor.is_none() || found.len() == scope.len() {
            found.sort();
            return Ok(found);
        }
    }
}
