//! Matching of request paths to path templates.

/// Returns the template that matches a path. Prefers templates that match segment by segment, and among them the one with the most
/// literal segments. Otherwise the last parameter of a template may match several segments, that is, unescaped slashes.
pub(crate) fn template<'a>(templates: impl Iterator<Item = &'a str>, path: &str) -> Option<&'a str> {
    let asked: Vec<&str> = path.split('/').collect();
    let ranked = templates.filter_map(|template| {
        let segments: Vec<&str> = template.split('/').collect();
        let literal = segments.iter().filter(|segment| !is_parameter(segment)).count();
        if fits(&segments, &asked) {
            Some(((2, 0, literal), template))
        } else if fits_with_slashes(&segments, &asked) {
            // The further right this parameter is, the fewer segments it matches.
            let last = segments.iter().rposition(|segment| is_parameter(segment)).unwrap_or_default();
            Some(((1, last, literal), template))
        } else {
            None
        }
    });
    ranked.max_by_key(|(rank, _)| *rank).map(|(_, template)| template)
}

fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{')
}

fn fits(template: &[&str], asked: &[&str]) -> bool {
    let fit = |(segment, text): (&&str, &&str)| if is_parameter(segment) { !text.is_empty() } else { segment == text };
    template.len() == asked.len() && template.iter().zip(asked).all(fit)
}

fn fits_with_slashes(template: &[&str], asked: &[&str]) -> bool {
    let Some(last) = template.iter().rposition(|segment| is_parameter(segment)) else { return false };
    let tail = template.len() - last - 1;
    if asked.len() < template.len() || asked.last().is_some_and(|segment| segment.is_empty()) {
        return false;
    }
    let (head, rest) = asked.split_at(last);
    let (_, end) = rest.split_at(rest.len() - tail);
    fits(&template[..last], head) && fits(&template[last + 1..], end)
}

#[cfg(test)]
mod tests {
    use super::template;

    #[test]
    fn the_most_literal_template_wins() {
        let all = [
            "/o/{id}",
            "/o/{id}/cancel",
            "/d/{a}/{b}",
            "/d/{a}/{b}/branches",
            "/d/{a}/{b}/branches/{branch}",
            "/r/{a}/{b}/jobs",
            "/r/{a}/{b}/{ref}",
        ];
        for (path, expected) in [
            ("/o/1", Some("/o/{id}")),
            ("/o/d/x/o/1", Some("/o/{id}")),
            ("/o/d/x/o/1/cancel", Some("/o/{id}/cancel")),
            ("/d/x/y/branches", Some("/d/{a}/{b}/branches")),
            ("/d/x/y/branches/a/b", Some("/d/{a}/{b}/branches/{branch}")),
            ("/d/x/", None),
            ("/d/x/y/branches/", None),
            ("/nothing", None),
            ("/r/x/y/a/jobs", Some("/r/{a}/{b}/{ref}")),
            ("/r/x/y/jobs", Some("/r/{a}/{b}/jobs")),
        ] {
            assert_eq!(template(all.into_iter(), path), expected, "{path}");
        }
    }
}
