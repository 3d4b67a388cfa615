//! The namespaces that a caller may see.

use axum::Json;
use axum::extract::State;
use weaver_api::{NamespaceItem, Page, PageQuery};
use weaver_core::limits::PAGE_MAX;
use weaver_core::name::Namespace;
use weaver_core::ports::{Cursor, Page as StorePage};

use super::caller::Caller;
use super::extract::Params;
use super::{ApiResult, AppState};

/// List namespaces that are not empty.
#[utoipa::path(get, path = "/api/v1/namespaces", tag = "namespaces", params(PageQuery),
    responses((status = 200, description = "A page of namespaces, by name", body = Page<NamespaceItem>)))]
pub(crate) async fn list_namespaces(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<PageQuery>,
) -> ApiResult<Json<Page<NamespaceItem>>> {
    let limit = state.page(query.limit)?;
    let page = visible(&state, &caller, query.cursor.map(Cursor), limit).await?;
    let items = page.items.iter().map(|namespace| NamespaceItem { name: namespace.to_string() }).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}

/// A page of the caller's namespaces. A store's cursor contains the name of a namespace, so only callers of
/// all namespaces get it. The others have a few namespaces, which are filtered, and cursors made of those.
pub(crate) async fn visible(
    state: &AppState,
    caller: &Caller,
    cursor: Option<Cursor>,
    limit: u32,
) -> ApiResult<StorePage<Namespace>> {
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

/// The namespaces of a scope that are not empty, by name.
async fn existing(state: &AppState, scope: &[Namespace]) -> ApiResult<Vec<Namespace>> {
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
