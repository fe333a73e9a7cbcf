//! Untrusted input besides SQL: headers, multipart bodies, URLs and prose. Also the configuration, which operators write.

use branchyard::cli::ServerLocation;
use branchyard::config::Config;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::json;

use super::targets::{ADDRESS, BRANCHES, HostileHarness, PULL, judged, one_of};

/// The headers to try. The first byte of an input chooses one.
const HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "if-none-match",
    "if-match",
    "range",
    "content-type",
    "content-length",
    "cookie",
    "origin",
    "x-request-id",
    "x-forwarded-for",
    "access-control-request-method",
    "host",
    "transfer-encoding",
];

pub(super) fn headers() -> Vec<Vec<u8>> {
    let values = [
        "application/json;q=0.5, text/csv, */*;q=0",
        "gzip, br;q=0.9, zstd;q=0.1, identity;q=0",
        "\"a\", W/\"b\", *",
        "\"a\"",
        "bytes=0-1,5-,-9",
        "application/json; charset=utf-8",
        "5",
        "branchyard_session=x; a=b",
        "https://a.test",
        "req_1",
        "1.2.3.4, [::1]:5",
        "DELETE",
        "a.test:99",
        "chunked",
    ];
    (0..).zip(values).map(|(number, value): (u8, &str)| [&[number][..], value.as_bytes()].concat()).collect()
}

pub(super) fn header(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let Some((chosen, value)) = bytes.split_first() else { return Ok("nothing".into()) };
    let name = HEADERS[usize::from(*chosen) % HEADERS.len()];
    let Ok(value) = HeaderValue::from_bytes(&value[..value.len().min(ADDRESS)]) else {
        return Ok("cannot be sent".into());
    };
    // A header that sets the length of the body changes the request, and its response may never come.
    if name == "content-length" || name == "transfer-encoding" {
        return Ok("not ours to send".into());
    }
    let mut brief = name.to_owned();
    for path in ["/databases/ada/rivers", "/databases/ada/rivers/sql?q=select%201", BRANCHES] {
        let request = harness.ada.request(Method::GET, path).header(HeaderName::from_static(name), value.clone());
        brief += &judged(&harness.ada.send(request))?;
    }
    Ok(brief)
}

/// Sends the bytes as the idempotency key of a request that never has an effect, or has had it.
pub(super) fn key(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let Ok(value) = HeaderValue::from_bytes(&bytes[..bytes.len().min(ADDRESS)]) else {
        return Ok("cannot be sent".into());
    };
    let request = harness.ada.request(Method::POST, BRANCHES).header("Idempotency-Key", value);
    one_of(&harness.ada.send(request.json(&json!({"name": "other", "from": {"branch": "main"}}))), &[400, 409])
}

pub(super) fn parts() -> Vec<Vec<u8>> {
    // The upload announced a thousand bytes.
    vec![b"id,name\n".to_vec(), vec![0; 1_000], vec![0; 1_001], Vec::new()]
}

/// Sends the bytes as a part of an upload, twice. The URL may have expired.
pub(super) fn part(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let put = |bytes: &[u8]| {
        let request = harness.anonymous.request(Method::PUT, &harness.part).body(bytes.to_vec());
        one_of(&harness.anonymous.send(request), &[200, 400, 403, 413])
    };
    Ok(put(bytes)? + &put(bytes)?)
}

pub(super) fn forms() -> Vec<Vec<u8>> {
    let params = r#"{"fileName":"t.csv","branchName":"","fileType":"Csv","importOp":"Overwrite","tableName":"f"}"#;
    let part = |name: &str, more: &str, body: &str| {
        format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{body}\r\n")
    };
    let file = part("file", "; filename=\"t.csv\"\r\nContent-Type: text/csv", "a,b\n1,2\n");
    let whole = format!("{}{file}--x--\r\n", part("params", "", params));
    vec![
        whole.clone().into_bytes(),
        format!("{file}{}--x--", part("params", "", "{")).into_bytes(),
        whole.as_bytes()[..80].to_vec(),
    ]
}

/// Sends the bytes as a form to v1alpha1, with `x` as the multipart boundary.
pub(super) fn form(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let request = harness.ada.plain(Method::POST, "/api/v1alpha1/ada/rivers/upload").bearer_auth(harness.secret());
    judged(&harness.ada.send(request.header("Content-Type", "multipart/form-data; boundary=x").body(bytes.to_vec())))
}

pub(super) const URLS: &[&str] = &[
    "https://hook.test/a?b=c",
    "http://127.0.0.1:1/",
    "https://[::ffff:10.0.0.1]/",
    "https://user:word@hook.test/#x",
    "https://0x7f.1/",
    "https://h\u{e4}k.test:65536/%00",
    "file:///etc/passwd",
    // A path with brackets, which was stored unchanged.
    "https://usetps:/[::ffff:10.0.0.1]/",
    // An invalid host, which was stored too.
    "https://uset\"ps/",
];

pub(super) fn hook_url(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    const HOOKS: &str = "/databases/ada/rivers/hooks";
    let made = harness.ada.post(HOOKS, &json!({"url": String::from_utf8_lossy(bytes), "active": false}));
    if made.status != 201 {
        return one_of(&made, &[400, 413, 422]);
    }
    let (id, url) = (made.data()["id"].as_str().unwrap_or_default().to_owned(), made.data()["url"].clone());
    // The stored URL is normalized: storing it again does not change it.
    let again = harness.ada.patch(&format!("{HOOKS}/{id}"), &json!({"url": url}));
    judged(&harness.ada.delete(&format!("{HOOKS}/{id}")))?;
    if again.status == 200 && again.data()["url"] == url {
        Ok("201".into())
    } else {
        Err(format!("{url} becomes {}", again.text))
    }
}

pub(super) const PROSE: &[&str] = &[
    "# a\n\n- [x](https://a.test) ![p](q.png)\n\n| a | b |\n|---|---|\n| 1 | `2` |\n",
    "<script>alert(1)</script> <img src=x onerror=alert(1)> <javascript:alert(1)>",
    "[a]: javascript:alert(1)\n[a] [b](data:text/html,x) [c](<java\nscript:x>)",
    "**_~~`\u{202e}&#x3c;script&#x3e;",
];

/// Sends the bytes as the description of a pull request. Nothing in it may run or be loaded by the page.
pub(super) fn markdown(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let kept = harness.ada.patch("/databases/ada/rivers/pulls/1", &json!({"description": text}));
    let brief = one_of(&kept, &[200, 400, 413])?;
    let shown = harness.anonymous.send(harness.anonymous.plain(Method::GET, PULL));
    if shown.status != 200 {
        return Err(format!("the page answers {}: {}", shown.status, shown.text));
    }
    // The page escapes `<` in text, and quotes in attributes.
    let lower = shown.text.to_lowercase();
    let scripts = lower.matches("<script").count();
    let images = lower.matches("<img").count();
    if images != lower.matches("<img src=\"/static/").count() {
        return Err(format!("the page has an image that is not the layout's: {}", shown.text));
    }
    for bad in ["<iframe", "<svg onload", "href=\"javascript:", "href=\"data:", "href=\"vbscript:"] {
        if lower.contains(bad) {
            return Err(format!("the page has {bad}: {}", shown.text));
        }
    }
    if scripts != harness.scripts {
        return Err(format!("the page has {scripts} scripts: {}", shown.text));
    }
    let elements = ["<h1", "<h2", "<ul", "<ol", "<table", "<pre", "<code", "<blockquote", "<em>", "<strong>"];
    Ok(elements.iter().fold(brief, |brief, element| format!("{brief} {}", lower.matches(element).count().min(20))))
}

pub(super) fn configurations() -> Vec<Vec<u8>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bins/branchyard/branchyard.default.toml");
    vec![
        std::fs::read(file).unwrap(),
        b"listen = \"127.0.0.1:0\"\n[sql]\nrow_cap = 5\n[hooks]\nallowed_cidrs = [\"10.0.0.0/8\"]\n".to_vec(),
    ]
}

/// Loads the bytes as a configuration, which is accepted or refused with a reason.
pub(super) fn configuration(bytes: &[u8]) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("branchyard.toml");
    std::fs::write(&file, bytes).map_err(|error| error.to_string())?;
    match Config::load(&ServerLocation { config: Some(file), ..ServerLocation::default() }) {
        Ok(config) => {
            // The rest of what a start reads from a configuration.
            let _ = config.domain_limits();
            Ok("taken".into())
        }
        Err(error) => {
            let text = format!("{error:#}");
            if text.is_empty() {
                Err("refused without a reason".into())
            } else {
                Ok(text.chars().filter(char::is_ascii_alphabetic).take(24).collect())
            }
        }
    }
}
