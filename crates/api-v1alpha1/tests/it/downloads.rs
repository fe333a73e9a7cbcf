//! Tests of downloads that fail before or after their first byte.

use std::time::Duration;

use actix_web::body::to_bytes;
use branchyard_domain::entities::Visibility;

use crate::harness::{LegacyHarness, message};

/// Creates rows that do not compress well, so that a part of them is sent before the last one is read.
fn furnish(world: &LegacyHarness) {
    let mut statements = "CREATE TABLE long (id INTEGER PRIMARY KEY, noise TEXT)".to_owned();
    let mut noise = 1_u64;
    for id in 0..ROWS {
        let mut text = String::new();
        for _ in 0..8 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!("{noise:016x}"));
        }
        let begin = if id == 0 { "; INSERT INTO long VALUES " } else { ", " };
        statements.push_str(&format!("{begin}({id}, '{text}')"));
    }
    world.write("main", &statements);
    world.work();
}

const ROWS: usize = 2_000;

/// Returns the status, and the body unless it was aborted.
async fn download(world: &LegacyHarness, path: &str) -> (u16, Option<Vec<u8>>) {
    let response = world.respond(LegacyHarness::request(None, "GET", path)).await;
    (response.status().as_u16(), to_bytes(response.into_body()).await.ok().map(|body| body.to_vec()))
}

#[actix_web::test]
async fn a_download_that_breaks_in_the_middle_has_no_end() {
    let world = LegacyHarness::new(Visibility::Public);
    furnish(&world);
    for path in ["/csv/olga/rivers/main/long", "/csv/olga/rivers/main"] {
        let (status, body) = download(&world, path).await;
        assert!(status == 200 && body.is_some_and(|body| body.len() > 64 << 10), "{path} is whole, and long");
    }
    world.fakes.engine.scans_break_after(ROWS - 1);
    for path in ["/csv/olga/rivers/main/long", "/csv/olga/rivers/main"] {
        assert_eq!(download(&world, path).await, (200, None), "{path}");
    }
}

#[actix_web::test]
async fn a_download_that_breaks_before_its_first_byte_is_refused() {
    let world = LegacyHarness::new(Visibility::Public);
    furnish(&world);
    world.fakes.engine.scans_break_after(1);
    for path in ["/csv/olga/rivers/main/long", "/csv/olga/rivers/main"] {
        let answer = world.send(LegacyHarness::request(None, "GET", path)).await;
        assert!(answer.status == 500 && message(&answer).starts_with("internal error (request "), "{}", answer.text);
    }
}

#[actix_web::test]
async fn the_tables_of_an_archive_share_its_time() {
    let mut world = LegacyHarness::new(Visibility::Public);
    world.write("main", "CREATE TABLE u (id INTEGER PRIMARY KEY)");
    world.work();
    world.fakes.engine.scans_take(Duration::from_millis(60));
    world.settings.export_timeout = Duration::from_millis(100);
    let get = |path: &'static str| LegacyHarness::request(None, "GET", path);
    for table in ["/csv/olga/rivers/main/t", "/csv/olga/rivers/main/u"] {
        assert_eq!(world.send(get(table)).await.status, 200, "either has time enough alone");
    }
    let answer = world.send(get("/csv/olga/rivers/main")).await;
    assert_eq!((answer.status, message(&answer).as_str()), (400, "query error: query timed out after 100 ms"));
    world.settings.export_timeout = Duration::from_millis(121);
    assert_eq!(world.send(get("/csv/olga/rivers/main")).await.status, 200);
}
