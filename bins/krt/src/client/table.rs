//! Columns of plain text.

/// Rows below a header; every row has as many cells as the header.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without rows.
    pub(crate) fn new(headers: &[&'static str]) -> Self {
        Self {
            headers: headers.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Renders it; columns are three blanks apart, as in kubectl.
    pub(crate) fn render(&self, with_headers: bool) -> String {
        let headers = self
            .headers
            .iter()
            .map(|header| (*header).to_owned())
            .collect();
        let mut rows: Vec<&Vec<String>> = Vec::new();
        let header: Vec<String> = headers;
        if with_headers {
            rows.push(&header);
        }
        rows.extend(&self.rows);
        let mut widths = vec![0; self.headers.len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row.iter()) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |row: &&Vec<String>| {
            let cells = row.iter().zip(&widths);
            let cells: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            cells.join("   ").trim_end().to_owned()
        };
        let lines: Vec<String> = rows.iter().map(line).collect();
        lines.join("\n")
    }
}

/// Renders `Name: value` lines; what has no value is left out.
pub(crate) fn fields(pairs: &[(&str, String)]) -> String {
    let shown = pairs.iter().filter(|(_, value)| !value.is_empty());
    let lines = shown.map(|(name, value)| {
        let value = value.replace('\n', "\n                 ");
        format!("{:<16} {}", format!("{name}:"), value.trim_end())
    });
    let lines: Vec<String> = lines.collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["NAME", "PHASE"]);
        table.row(vec!["a".to_owned(), "Succeeded".to_owned()]);
        table.row(vec!["longer".to_owned(), "-".to_owned()]);
        assert_eq!(
            table.render(true),
            "NAME     PHASE\na        Succeeded\nlonger   -"
        );
        assert_eq!(table.render(false), "a        Succeeded\nlonger   -");
    }

    #[test]
    fn fields_without_a_value_are_left_out() {
        let pairs = [
            ("Name", "x".to_owned()),
            ("Args", String::new()),
            ("Message", "a\nb".to_owned()),
        ];
        assert_eq!(
            fields(&pairs),
            "Name:            x\nMessage:         a\n                 b"
        );
    }
}
