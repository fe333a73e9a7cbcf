//! A browser, driven by chromedriver.

use std::cell::Cell;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use branchyard_testkit::Server;
use fantoccini::elements::Element;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// How long anything may take to appear.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command of the DevTools protocol, which chromedriver forwards.
struct DevTools(&'static str, Value);

impl fmt::Debug for DevTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(json!({"cmd": self.0, "params": self.1}).to_string()))
    }
}

/// Whether pages may run scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum JavaScript {
    On,
    Off,
}

/// The color scheme that the system prefers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Theme {
    Light,
    Dark,
}

/// A browser window on a server. Dropping it ends the driver.
pub(super) struct Chromium {
    client: Option<Client>,
    runtime: Runtime,
    driver: Child,
    origin: String,
    axe: Option<String>,
    wanted_width: Cell<u32>,
}

fn command(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Starts a driver and returns it with its port, or `None` if it ended.
fn start(driver: &Path) -> Option<(Child, String)> {
    let mut driver = Command::new(driver).arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut told = BufReader::new(driver.stdout.take().unwrap()).lines().map(Result::unwrap);
    let port = told.find_map(|line| Some(line.split_once("successfully on port ")?.1.trim_end_matches('.').to_owned()));
    if port.is_none() {
        driver.wait().unwrap();
    }
    Some((driver, port?))
}

impl Chromium {
    /// Opens a window. Returns `None` if the browser or its driver is missing and not required.
    pub(super) fn open(server: &Server, javascript: JavaScript) -> Option<Self> {
        let (Some(browser), Some(driver)) = (command("chromium"), command("chromedriver")) else {
            let required = std::env::var_os("BRANCHYARD_TEST_REQUIRE_BROWSER").is_some();
            assert!(!required, "chromium and chromedriver are required here, and are not there");
            eprintln!("no chromium or no chromedriver: nothing was tested");
            return None;
        };
        // The driver takes a free port of one address family, and ends if the port is taken in the other one.
        let (driver, port) = (0..10).find_map(|_| start(&driver)).expect("chromedriver starts");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let options = json!({
            "binary": browser.to_str().unwrap(),
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--disable-background-networking", "--no-first-run"],
        });
        // axe-core takes long for the largest page beside other tests.
        let timeouts = json!({"script": 180_000});
        let capabilities = [("goog:chromeOptions".to_owned(), options), ("timeouts".to_owned(), timeouts)];
        let capabilities: Capabilities = capabilities.into_iter().collect();
        let client = runtime.block_on(
            ClientBuilder::new(HttpConnector::new())
                .capabilities(capabilities)
                .connect(&format!("http://127.0.0.1:{port}")),
        );
        let axe = std::env::var_os("BRANCHYARD_TEST_AXE").map(|file| std::fs::read_to_string(file).unwrap());
        let (client, origin) = (Some(client.expect("chromium starts")), server.address());
        let chromium = Self { client, runtime, driver, origin, axe, wanted_width: Cell::default() };
        if javascript == JavaScript::Off {
            chromium.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true}));
        }
        chromium.width(1280);
        Some(chromium)
    }

    fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }

    fn devtools(&self, name: &'static str, parameters: Value) -> Value {
        self.runtime.block_on(self.client().issue_cmd(DevTools(name, parameters))).unwrap()
    }

    /// Sets the width of the window.
    pub(super) fn width(&self, width: u32) {
        self.size(width, 900);
    }

    /// Sets width and height of the window.
    pub(super) fn size(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics);
        self.wanted_width.set(width);
    }

    /// Returns width and height of an element, also where scripts are off.
    #[track_caller]
    pub(super) fn extent(&self, css: &str) -> (f64, f64) {
        let (_, _, width, height) = self.runtime.block_on(self.find(css).rectangle()).unwrap();
        (width, height)
    }

    /// Sets the color scheme that the system prefers.
    pub(super) fn theme(&self, theme: Theme) {
        let value = if theme == Theme::Dark { "dark" } else { "light" };
        // Without motion, colors change at once. Otherwise those of a button may be between two schemes when they are checked.
        let scheme = json!({"name": "prefers-color-scheme", "value": value});
        let features = json!({"features": [scheme, {"name": "prefers-reduced-motion", "value": "reduce"}]});
        self.devtools("Emulation.setEmulatedMedia", features);
    }

    /// Opens a path of the server.
    pub(super) fn go(&self, path: &str) {
        self.runtime.block_on(self.client().goto(&format!("{}{path}", self.origin))).unwrap();
    }

    /// Opens a page of any origin.
    pub(super) fn visit(&self, address: &str) {
        self.runtime.block_on(self.client().goto(address)).unwrap();
    }

    /// Returns the path and query of the open page.
    pub(super) fn path(&self) -> String {
        let address = self.runtime.block_on(self.client().current_url()).unwrap();
        address.as_str().strip_prefix(&self.origin).unwrap_or_else(|| panic!("elsewhere: {address}")).to_owned()
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub(super) fn wait(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < PATIENCE, "not in time: {what}, at {}: {}", self.path(), self.all_text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn all_text(&self) -> String {
        self.now("body").and_then(|body| self.runtime.block_on(body.text()).ok()).unwrap_or_default()
    }

    /// Returns an element, without waiting for it.
    fn now(&self, css: &str) -> Option<Element> {
        self.runtime.block_on(self.client().find(Locator::Css(css))).ok()
    }

    /// Returns `true` if the element exists, without waiting for it.
    pub(super) fn has(&self, css: &str) -> bool {
        self.now(css).is_some()
    }

    /// Returns `true` if the page in a frame has an element, without waiting for it. The page may be of another origin.
    #[track_caller]
    pub(super) fn frame_has(&self, frame: &str, css: &str) -> bool {
        let frame = self.find(frame);
        self.runtime.block_on(frame.enter_frame()).unwrap();
        let has = self.has(css);
        self.runtime.block_on(self.client().enter_parent_frame()).unwrap();
        has
    }

    #[track_caller]
    fn find(&self, css: &str) -> Element {
        self.wait(css, |this| this.has(css));
        self.now(css).unwrap()
    }

    /// Returns the text of an element, or an empty string if the element does not exist.
    pub(super) fn text(&self, css: &str) -> String {
        self.now(css).and_then(|element| self.runtime.block_on(element.text()).ok()).unwrap_or_default()
    }

    /// Waits until an element contains a text.
    #[track_caller]
    pub(super) fn shows(&self, css: &str, text: &str) {
        self.wait(&format!("'{text}' in {css}"), |this| this.text(css).contains(text));
    }

    /// Returns a property of an element, or an empty string if it is absent.
    #[track_caller]
    pub(super) fn property(&self, css: &str, name: &str) -> String {
        self.runtime.block_on(self.find(css).prop(name)).unwrap().unwrap_or_default()
    }

    /// Clears a field and types a text into it.
    #[track_caller]
    pub(super) fn fill(&self, css: &str, text: &str) {
        let field = self.find(css);
        self.runtime.block_on(field.clear()).unwrap();
        self.runtime.block_on(field.send_keys(text)).unwrap();
    }

    /// Presses keys in a field.
    #[track_caller]
    pub(super) fn press(&self, css: &str, keys: &str) {
        self.runtime.block_on(self.find(css).send_keys(keys)).unwrap();
    }

    /// Runs a script in the page, which has to allow scripts.
    pub(super) fn run(&self, script: &str) -> Value {
        self.runtime.block_on(self.client().execute(script, Vec::new())).unwrap()
    }

    /// Chooses a file in a file input.
    #[track_caller]
    pub(super) fn choose(&self, css: &str, file: &Path) {
        self.runtime.block_on(self.find(css).send_keys(file.to_str().unwrap())).unwrap();
    }

    /// Clicks an element.
    #[track_caller]
    pub(super) fn click(&self, css: &str) {
        self.runtime.block_on(self.find(css).click()).unwrap();
    }

    /// Clicks an element twice.
    #[track_caller]
    pub(super) fn double_click(&self, css: &str) {
        let (x, y) = self.middle(css);
        for count in [1, 2] {
            for kind in ["mousePressed", "mouseReleased"] {
                let event = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": count});
                self.devtools("Input.dispatchMouseEvent", event);
            }
        }
    }

    /// Taps an element, as on a phone.
    #[track_caller]
    pub(super) fn tap(&self, css: &str) {
        let (x, y) = self.middle(css);
        self.devtools("Emulation.setTouchEmulationEnabled", json!({"enabled": true}));
        self.devtools("Input.dispatchTouchEvent", json!({"type": "touchStart", "touchPoints": [{"x": x, "y": y}]}));
        self.devtools("Input.dispatchTouchEvent", json!({"type": "touchEnd", "touchPoints": []}));
    }

    /// Scrolls to an element, and returns its middle in the window.
    #[track_caller]
    fn middle(&self, css: &str) -> (f64, f64) {
        self.find(css);
        let script = format!(
            "const found = document.querySelector({}); found.scrollIntoView({{block: 'center'}}); \
             const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]",
            json!(css)
        );
        let middle = self.run(&script);
        (middle[0].as_f64().unwrap(), middle[1].as_f64().unwrap())
    }

    /// Clicks a submit button, and waits for the next page.
    #[track_caller]
    pub(super) fn send(&self, css: &str) {
        let button = self.find(css);
        self.runtime.block_on(button.click()).unwrap();
        self.wait("the next page", |this| {
            // The element is stale once the page is left.
            this.runtime.block_on(button.tag_name()).is_err()
        });
    }

    /// Signs up a user, who is signed in afterwards.
    pub(super) fn sign_up(&self, name: &str) {
        self.go("/sign-up");
        self.fill("#name", name);
        self.fill("#email", &format!("{name}@example.test"));
        self.fill("#password", "correct horse");
        self.send("#sign-up-form button");
        self.shows("#account-menu summary", name);
    }

    /// Returns the violations that axe-core rates as serious or critical. Returns none without axe-core.
    pub(super) fn serious_faults(&self) -> Vec<String> {
        let Some(axe) = &self.axe else { return Vec::new() };
        self.runtime.block_on(self.client().execute(axe, Vec::new())).unwrap();
        let run = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(found => done(found.violations), fault => done([{id: String(fault), impact: 'serious', nodes: []}]));";
        let found = self.runtime.block_on(self.client().execute_async(run, Vec::new())).unwrap();
        let serious = |one: &&Value| matches!(one["impact"].as_str(), Some("serious" | "critical"));
        let told = |one: &Value| {
            let nodes = one["nodes"].as_array().into_iter().flatten();
            let nodes = nodes.map(|node| format!("{} {}", node["html"], node["any"][0]["message"])).collect::<Vec<_>>();
            format!("{} ({}): {}", one["id"], one["help"], nodes.join("\n    "))
        };
        let path = self.path();
        found.as_array().into_iter().flatten().filter(serious).map(|one| format!("{path}: {}", told(one))).collect()
    }

    /// Writes a screenshot of the whole page, if `BRANCHYARD_TEST_SCREENSHOTS` is set.
    pub(super) fn screenshot(&self, name: &str, theme: Theme, width: u32) {
        let Some(folder) = std::env::var_os("BRANCHYARD_TEST_SCREENSHOTS").map(PathBuf::from) else { return };
        let measured = self.devtools("Page.getLayoutMetrics", json!({}));
        let height = measured["cssContentSize"]["height"].as_f64().unwrap_or(900.0).clamp(600.0, 3_000.0);
        let whole = json!({"width": width, "height": height.round(), "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", whole);
        let picture = self.runtime.block_on(self.client().screenshot()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        let theme = if theme == Theme::Dark { "dark" } else { "light" };
        std::fs::write(folder.join(format!("{name}-{theme}-{width}.png")), picture).unwrap();
        self.width(width);
    }

    /// Returns `true` if the page is wider than the window, which makes a phone scroll sideways.
    pub(super) fn overflows(&self) -> bool {
        let measured = self.devtools("Page.getLayoutMetrics", json!({}));
        // The layout viewport of a phone grows with its content.
        measured["cssContentSize"]["width"].as_f64().unwrap() > f64::from(self.wanted_width.get()) + 1.0
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = self.runtime.block_on(client.close());
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
