//! A browser without JavaScript. It keeps cookies, follows links, fills in forms, and checks what must hold for every page.

use std::cell::RefCell;
use std::collections::BTreeMap;

use branchyard_testkit::{AMPLE, Server, wait_for};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use reqwest::blocking::{Client, RequestBuilder};
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;

/// The largest size of a page without data, in bytes.
const PAGE_BYTES: usize = 100_000;
/// The largest size of an API reference, in bytes. It is a single page so that it can be searched.
const REFERENCE_BYTES: usize = 1_000_000;

const FORM: &str = "application/x-www-form-urlencoded";

fn encode(fields: &[(String, String)]) -> String {
    let quote = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{}={}", quote(name), quote(value))).collect();
    pairs.join("&")
}

/// Replaces the escapes that templates and Markdown produce by their characters, each once.
pub(super) fn unescaped(html: &str) -> String {
    const ESCAPES: [(&str, char); 10] = [
        ("&#38;", '&'),
        ("&#60;", '<'),
        ("&#62;", '>'),
        ("&#34;", '"'),
        ("&#39;", '\''),
        ("&amp;", '&'),
        ("&lt;", '<'),
        ("&gt;", '>'),
        ("&quot;", '"'),
        ("&#x27;", '\''),
    ];
    let (mut text, mut rest) = (String::new(), html);
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        let (escape, meant) = ESCAPES
            .into_iter()
            .find(|(escape, _)| rest[at..].starts_with(escape))
            .unwrap_or_else(|| panic!("no escape is at '{}'", &rest[at..]));
        text.push(meant);
        rest = &rest[at + escape.len()..];
    }
    text + rest
}

#[test]
fn fields_are_sent_as_they_are_meant() {
    let text = "<form action=\"/x\"><input type=\"hidden\" name=\"a\" value=\"&#60;b&#62; &#38;#60; &quot;\"></form>"
        .to_owned();
    let page = Page { status: 200, headers: HeaderMap::new(), text, location: None };
    assert_eq!(page.hidden_fields("/x"), [("a".to_owned(), "<b> &#60; \"".to_owned())]);
}

/// A response whose body has been read.
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    /// The target of a redirect.
    pub(super) location: Option<String>,
}

impl Page {
    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    #[track_caller]
    pub(super) fn shows(self, text: &str) -> Self {
        assert!(self.text.contains(text), "no '{text}' in {}", self.text);
        self
    }

    /// Returns the hidden fields of the form with this action.
    pub(super) fn hidden_fields(&self, action: &str) -> Vec<(String, String)> {
        let written = action.replace('&', "&#38;");
        let start = self.text.find(&format!("action=\"{written}\"")).unwrap_or_else(|| panic!("no form to {action}"));
        let form = &self.text[start..];
        let form = &form[..form.find("</form>").unwrap()];
        let attribute = |tag: &str, name: &str| {
            let value = tag.split_once(&format!("{name}=\"")).map(|(_, rest)| rest);
            unescaped(value.and_then(|rest| rest.split('"').next()).unwrap_or_default())
        };
        let tags = form.split("<input ").skip(1).map(|rest| rest.split('>').next().unwrap_or_default());
        let hidden = tags.filter(|tag| attribute(tag, "type") == "hidden");
        hidden.map(|tag| (attribute(tag, "name"), attribute(tag, "value"))).collect()
    }

    /// Returns the CSRF token for scripts.
    pub(super) fn token(&self) -> String {
        let (_, rest) = self.text.split_once("name=\"csrf-token\" content=\"").unwrap_or_else(|| panic!("no token"));
        rest.split('"').next().unwrap().to_owned()
    }

    /// Parses a response in JSON.
    #[track_caller]
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// Returns the value of the field with this id.
    pub(super) fn value_of(&self, id: &str) -> String {
        let (_, rest) = self.text.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no field {id}"));
        let tag = rest.split('>').next().unwrap();
        unescaped(tag.split_once("value=\"").unwrap().1.split('"').next().unwrap())
    }
}

/// A browser for one server.
pub(super) struct Browser {
    origin: String,
    client: Client,
    pub(super) cookies: RefCell<BTreeMap<String, String>>,
}

impl Browser {
    pub(super) fn at(server: &Server) -> Self {
        let client = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
        Self { origin: server.address(), client, cookies: RefCell::default() }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let cookies: Vec<String> =
            self.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = self.client.request(method, format!("{}{path}", self.origin));
        if cookies.is_empty() { request } else { request.header("Cookie", cookies.join("; ")) }
    }

    fn send(&self, request: RequestBuilder) -> Page {
        let response = request.send().unwrap();
        for cookie in response.headers().get_all("set-cookie") {
            let cookie = cookie.to_str().unwrap();
            assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            match cookie.contains("Max-Age=0;") {
                true => self.cookies.borrow_mut().remove(name),
                false => self.cookies.borrow_mut().insert(name.to_owned(), value.to_owned()),
            };
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let location = headers.get("location").map(|value| value.to_str().unwrap().to_owned());
        let page = Page { status, text: response.text().unwrap(), headers, location };
        page.keeps_its_promises();
        page
    }

    /// Sends a GET request.
    pub(super) fn get(&self, path: &str) -> Page {
        self.send(self.request(Method::GET, path))
    }

    /// Downloads a file.
    pub(super) fn bytes(&self, path: &str) -> (HeaderMap, Vec<u8>) {
        let response = self.request(Method::GET, path).send().unwrap();
        assert_eq!(response.status().as_u16(), 200, "{path}");
        (response.headers().clone(), response.bytes().unwrap().to_vec())
    }

    /// Follows the redirect of a response.
    pub(super) fn follow(&self, page: &Page) -> Page {
        self.get(page.location.as_deref().unwrap_or_else(|| panic!("no redirect: {} {}", page.status, page.text)))
    }

    /// Fills in the form with this action on a page, and sends it.
    pub(super) fn submit(&self, on: &Page, action: &str, fields: &[(&str, &str)]) -> Page {
        let mut all = on.hidden_fields(action);
        all.retain(|(name, _)| fields.iter().all(|(given, _)| given != name));
        all.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        self.send(
            self.request(Method::POST, action)
                .header("Origin", &self.origin)
                .header("Content-Type", FORM)
                .body(encode(&all)),
        )
    }

    /// Sends the form with this action as a multipart form with a file.
    pub(super) fn submit_file(&self, on: &Page, action: &str, fields: &[(&str, &str)], file: (&str, &[u8])) -> Page {
        let mut body = Vec::new();
        let hidden = on.hidden_fields(action);
        let given = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        for (name, value) in hidden.into_iter().chain(given) {
            let part = format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            body.extend_from_slice(part.as_bytes());
        }
        let head = format!(
            "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\nContent-Type: text/plain\r\n\r\n",
            file.0.replace('"', "%22")
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(file.1);
        body.extend_from_slice(b"\r\n--edge--\r\n");
        let request = self.request(Method::POST, action).header("Origin", &self.origin);
        self.send(request.header("Content-Type", "multipart/form-data; boundary=edge").body(body))
    }

    /// Sends bytes as the scripts of the pages do, with the CSRF token in a header.
    pub(super) fn put(&self, address: &str, token: &str, bytes: &[u8]) -> Page {
        self.send(self.request(Method::PUT, address).header("X-CSRF-Token", token).body(bytes.to_vec()))
    }

    /// Sends JSON as the scripts of the pages do, with the CSRF token in a header, and further headers.
    pub(super) fn post_json(
        &self,
        address: &str,
        token: &str,
        body: &serde_json::Value,
        headers: &[(&str, &str)],
    ) -> Page {
        let request = self.request(Method::POST, address).header("X-CSRF-Token", token);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.send(request.header("Content-Type", "application/json").body(body.to_string()))
    }

    /// Reloads a page until its content is final.
    pub(super) fn settled(&self, path: &str) -> Page {
        wait_for("the final page", AMPLE, || {
            let page = self.get(path).expect(200);
            if page.text.contains(" data-live") { Err(page.text) } else { Ok(page) }
        })
    }

    /// Sends a form that no page offers, with extra headers.
    pub(super) fn forge(&self, action: &str, fields: &[(String, String)], headers: &[(&str, &str)]) -> Page {
        let request = headers
            .iter()
            .fold(self.request(Method::POST, action), |request, (name, value)| request.header(*name, *value));
        self.send(request.header("Content-Type", FORM).body(encode(fields)))
    }
}

impl Page {
    /// Returns the tags of the page without the values of their attributes. Text is escaped, so only tags stand between `<` and `>`.
    fn bare_tags(&self) -> String {
        let tags = self.text.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default());
        let bare = tags.map(|tag| tag.split('"').step_by(2).collect::<String>());
        bare.map(|tag| format!("<{tag}>").to_lowercase()).collect()
    }

    /// Checks what must hold for every page.
    fn keeps_its_promises(&self) {
        let policy = self.headers.get("content-security-policy").map(|value| value.to_str().unwrap().to_owned());
        let policy = policy.unwrap_or_else(|| panic!("no policy: {}", self.text));
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(self.headers["x-content-type-options"], "nosniff");
        let is_html =
            self.headers.get("content-type").is_some_and(|kind| kind.to_str().unwrap().starts_with("text/html"));
        if !is_html {
            return;
        }
        let most = if self.text.contains("class=\"wrap columns first-narrow reference\"") {
            REFERENCE_BYTES
        } else {
            PAGE_BYTES
        };
        assert!(self.text.len() < most, "{} bytes", self.text.len());
        let (text, tags) = (self.text.to_lowercase(), self.bare_tags());
        for inline in [" style=", "<style", " onclick", " onload", " onerror"] {
            assert!(!tags.contains(inline), "{inline} in {}", self.text);
        }
        // The page of a table loads a script more for people who may edit it.
        let scripts = text.matches("<script src=\"/static/").count();
        assert_eq!(text.matches("<script").count(), scripts, "{}", self.text);
        assert!((1..=2).contains(&scripts), "{}", self.text);
        assert_eq!(tags.matches("<h1>").count() + tags.matches("<h1 ").count(), 1, "{}", self.text);
        for element in ["<main", "<h1", "<title>", "href=\"#content\"", "lang=\"en\""] {
            assert!(text.contains(element), "no {element} in {}", self.text);
        }
        assert!(!text.contains("=\"javascript:"), "{}", self.text);
        // Nothing is loaded from another origin, and no two elements share an id.
        assert!(
            !text.contains("src=\"http") && !text.contains("<link rel=\"stylesheet\" href=\"http"),
            "{}",
            self.text
        );
        let mut ids: Vec<&str> =
            self.text.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default()).collect();
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count, "an id is there twice: {}", self.text);
    }
}
