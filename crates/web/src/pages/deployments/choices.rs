//! The choice of instance and storage with its price, for new deployments and for those that start again.

use branchyard_deployments::WantedSize;
use branchyard_deployments::entities::InstanceSize;
use branchyard_deployments::errors::DeploymentError;
use branchyard_deployments::values::Usd;
use branchyard_domain::errors::PortError;
use branchyard_http_common::pointer_of;

use crate::error_page::PageError;
use crate::forms::{Filled, Form};
use crate::money;
use crate::page_context::PageContext;

/// The form fields of the size.
pub(super) const FIELDS: &[&str] = &["cloud", "zone", "instance_type_id", "volume_type_id", "volume_size_gb"];
/// The default storage size in gigabytes.
const VOLUME: &str = "10";

/// An instance type as an option.
pub(super) struct SizeChoice {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) price: String,
}

/// The options for the size of a deployment.
pub(super) struct Choices {
    /// Zones of all clouds: values and labels of the options.
    pub(super) places: Vec<(String, String)>,
    pub(super) sizes: Vec<SizeChoice>,
    /// Storage types: ids, and labels with prices.
    pub(super) volumes: Vec<(String, String)>,
    pub(super) price: Option<Price>,
}

/// The price of a size.
pub(super) struct Price {
    pub(super) hourly: String,
    pub(super) monthly: String,
    pub(super) compute: String,
    pub(super) storage: String,
    /// The exact hourly price, which the user confirms.
    pub(super) agreed: String,
    pub(super) rate: Usd,
}

impl Price {
    fn of(size: &InstanceSize) -> Self {
        let rate = size.rate();
        Self {
            hourly: money::hourly(rate),
            monthly: money::dollars(rate.per_month()),
            compute: money::dollars(size.compute_rate.per_month()),
            storage: money::dollars(size.storage_rate.per_month()),
            agreed: rate.to_string(),
            rate,
        }
    }
}

/// The size that a form selects.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    pub(super) cloud: String,
    pub(super) zone: String,
    pub(super) instance_type: String,
    pub(super) volume_type: String,
    pub(super) volume_gb: u32,
}

impl Chosen {
    /// Reads the size from a form. Returns `None` and records an error if the storage size is not a number. `place` overrides the zone.
    pub(super) fn read(form: &Form, filled: &mut Filled, place: Option<(&str, &str)>) -> Option<Self> {
        let sent = form.line("place");
        let (cloud, zone) = place.or_else(|| sent.split_once('/')).unwrap_or_default();
        let whole = form.line("volume_size_gb").parse::<u32>().map_err(|_| "Enter a whole number of gigabytes.");
        let volume_gb = filled.checked("volume_size_gb", whole)?;
        Some(Self {
            cloud: cloud.to_owned(),
            zone: zone.to_owned(),
            instance_type: form.line("instance_type_id"),
            volume_type: form.line("volume_type_id"),
            volume_gb,
        })
    }

    fn wanted(&self) -> WantedSize<'_> {
        WantedSize {
            cloud: &self.cloud,
            zone: &self.zone,
            instance_type: &self.instance_type,
            volume_type: &self.volume_type,
            volume_gb: self.volume_gb,
        }
    }

    /// Returns the price. If the size is not available, records the error next to its field and returns `None`.
    pub(super) fn price(&self, visit: &PageContext, form: &mut Filled) -> Result<Option<Price>, PageError> {
        match visit.state.services.deployments().price(&self.wanted()) {
            Ok(size) => Ok(Some(Price::of(&size))),
            Err(DeploymentError::Field { field, why }) => {
                let place = pointer_of(field).trim_start_matches('/');
                match FIELDS.iter().find(|field| **field == place) {
                    Some(&("cloud" | "zone")) => form.fault("place", why),
                    Some(field) => form.fault(field, why),
                    None => form.fault("", why),
                }
                Ok(None)
            }
            Err(DeploymentError::Port(fault)) => Err(PageError::refused(fault.into(), visit.request())),
            Err(_) => Err(PageError::refused(PortError::Unsettled("a price that is refused").into(), visit.request())),
        }
    }
}

/// Returns the options, and the form with defaults for fields without a value.
pub(super) fn offer(
    visit: &PageContext,
    mut form: Filled,
    place: Option<(&str, &str)>,
    price: Option<Price>,
) -> (Choices, Filled) {
    let catalogue = visit.state.services.deployments().catalogue();
    let pairs = catalogue.clouds.iter().flat_map(|cloud| cloud.zones.iter().map(move |zone| (cloud, zone)));
    let places: Vec<(String, String)> = pairs
        .map(|(cloud, zone)| {
            let label = if cloud.id == *zone { zone.clone() } else { format!("{zone} ({})", cloud.id) };
            (format!("{}/{zone}", cloud.id), label)
        })
        .collect();
    if form.value("place").is_empty()
        && let Some((first, _)) = places.first()
    {
        form = form.with("place", first.clone());
    }
    let sent = form.value("place").to_owned();
    let (cloud, zone) = place.or_else(|| sent.split_once('/')).unwrap_or_default();
    let types: Vec<_> = catalogue.types_in(cloud, zone).collect();
    let is_offered = |id: &str| types.iter().any(|kind| kind.id == id);
    if form.value("instance_type_id").is_empty()
        && let Some(first) = types.first()
    {
        form = form.with("instance_type_id", first.id.clone());
    }
    let sizes = types
        .iter()
        .map(|kind| SizeChoice {
            id: kind.id.clone(),
            name: kind.name.clone(),
            text: format!("{} CPU, {} GB memory. {}", kind.cpus, kind.memory_gb, kind.description),
            price: money::dollars(kind.hourly_cost.per_month()),
        })
        .collect();
    let chosen = form.value("instance_type_id").to_owned();
    let of_size = types.iter().filter(|kind| kind.id == chosen || !is_offered(&chosen)).flat_map(|kind| &kind.storage);
    let mut volumes: Vec<(String, String)> = Vec::new();
    for option in of_size.filter_map(|id| catalogue.storage_option(id)) {
        let label = format!(
            "{}: {} per GB a month, {} to {} GB",
            option.name,
            money::dollars(option.monthly_cost_per_gb),
            option.min_size_gb,
            option.max_size_gb
        );
        if !volumes.iter().any(|(id, _)| *id == option.id) {
            volumes.push((option.id.clone(), label));
        }
    }
    if form.value("volume_type_id").is_empty()
        && let Some((first, _)) = volumes.first()
    {
        form = form.with("volume_type_id", first.clone());
    }
    if form.value("volume_size_gb").is_empty() && form.error("volume_size_gb").is_none() {
        form = form.with("volume_size_gb", VOLUME);
    }
    (Choices { places, sizes, volumes, price }, form)
}

/// Returns the price of a form that has not been submitted yet.
pub(super) fn price_shown(
    visit: &PageContext,
    form: &Filled,
    place: Option<(&str, &str)>,
) -> Result<Option<Price>, PageError> {
    let sent = form.value("place");
    let (cloud, zone) = place.or_else(|| sent.split_once('/')).unwrap_or_default();
    let Ok(volume_gb) = form.value("volume_size_gb").parse() else { return Ok(None) };
    let chosen = Chosen {
        cloud: cloud.to_owned(),
        zone: zone.to_owned(),
        instance_type: form.value("instance_type_id").to_owned(),
        volume_type: form.value("volume_type_id").to_owned(),
        volume_gb,
    };
    chosen.price(visit, &mut Filled::default())
}
