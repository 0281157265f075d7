//! `page` makes one self-contained page of the description of all routes, for people.

use std::fmt::Write;

use serde_json::Value;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
h2{font:600 1rem ui-monospace,monospace;margin:2.5rem 0 .25rem;padding:.4rem .6rem;background:#eef2f7;border-radius:4px;overflow-wrap:anywhere}\
h3{font-size:.9rem;margin:.8rem 0 .2rem;color:#555}p{margin:.3rem 0}\
table{border-collapse:collapse;width:100%}td{padding:.2rem .8rem .2rem 0;vertical-align:top;border-top:1px solid #eee}\
td:first-child{font-family:ui-monospace,monospace;white-space:nowrap}td:nth-child(2){color:#777;white-space:nowrap}\
code,pre{font-family:ui-monospace,monospace;background:#f5f5f5;border-radius:3px}pre{padding:.6rem;overflow:auto}";

/// The page of an OpenAPI document.
pub(crate) fn page(document: &Value) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>pstore</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\
         <h1>pstore {}</h1><p>{}</p>\
         <p>Send <code>Authorization: Bearer SECRET</code> with a token that <code>pstore token new</code> has \
         made. <a href=\"openapi.json\">openapi.json</a> says the same to programs.</p>",
        text(&document["info"]["version"]),
        text(&document["info"]["description"]),
    );
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            route(&mut page, &method.to_ascii_uppercase(), path, operation);
        }
    }
    page.push_str("</body></html>\n");
    page
}

/// Writing to memory does not fail, so its result is not looked at.
fn route(page: &mut String, method: &str, path: &str, operation: &Value) {
    let _ = write!(page, "<h2>{method} {}</h2><p>{}.</p>", escaped(path), text(&operation["summary"]));
    if operation["description"].is_string() {
        let _ = write!(page, "<p>{}</p>", text(&operation["description"]));
    }
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters = parameters.map(|parameter| {
        let name = parameter["name"].as_str().unwrap_or_default();
        (name, kind(&parameter["schema"]), &parameter["description"])
    });
    table(page, "Parameters", parameters.collect());
    table(page, "Body", fields(&operation["requestBody"]["content"]["application/json"]["schema"]));
    let answer = &operation["responses"]["200"]["content"]["application/json"]["schema"];
    match fields(answer) {
        fields if fields.is_empty() && answer.is_object() => {
            let forms = answer["anyOf"].as_array().into_iter().flatten();
            forms.for_each(|form| table(page, "Answer, in one of its forms", self::fields(form)));
        }
        fields => table(page, "Answer", fields),
    }
}

type Row<'a> = (&'a str, String, &'a Value);

fn fields(schema: &Value) -> Vec<Row<'_>> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields.map(|(name, schema)| (name.as_str(), kind(schema), &schema["description"])).collect()
}

fn table(page: &mut String, title: &str, rows: Vec<Row<'_>>) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(page, "<h3>{title}</h3><table>");
    for (name, kind, description) in rows {
        let (name, kind) = (escaped(name), escaped(&kind));
        let _ = write!(page, "<tr><td>{name}</td><td>{kind}</td><td>{}</td></tr>", text(description));
    }
    page.push_str("</table>");
}

/// The kind of a value, in a word or two.
fn kind(schema: &Value) -> String {
    let word = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_else(|| value.to_string());
    match (&schema["type"], &schema["enum"], &schema["const"]) {
        (_, Value::Array(words), _) => words.iter().map(word).collect::<Vec<_>>().join(" or "),
        (_, _, only) if !only.is_null() => word(only),
        (Value::String(name), ..) => name.clone(),
        (Value::Array(names), ..) => names.iter().map(word).collect::<Vec<_>>().join(" or "),
        _ => {
            let forms = schema["anyOf"].as_array().or(schema["oneOf"].as_array()).into_iter().flatten();
            let mut kinds: Vec<String> = forms.map(kind).collect();
            kinds.dedup();
            kinds.join(" or ")
        }
    }
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_only_text() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
