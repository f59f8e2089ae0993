//! Java, as JIT agents of OpenJDK write method names: `Ljava/lang/String;indexOf(II)I`.
//!
//! The descriptor grammar is that of the JVM specification, section 4.3. The return type is left out.

#[derive(Clone, Copy, PartialEq)]
enum At {
    /// Before the class.
    Prefix,
    /// In the name of the method's class.
    Class,
    /// In the method's name.
    Method,
    /// Between argument types.
    Types,
    /// In the class name of an argument.
    ArgumentClass,
}

/// `package.Class.method(type, type)`, or `None` if the name is no such method.
pub(super) fn demangle(name: &[u8]) -> Option<String> {
    let end = name.iter().rposition(|&b| b == b')')? + 1;
    let name = name.get(..end)?;
    let mut out = Vec::with_capacity(name.len() * 2);
    let mut at = At::Prefix;
    let (mut arrays, mut arguments) = (0usize, 0usize);
    let separate = |out: &mut Vec<u8>, arguments: &mut usize| {
        if *arguments > 0 {
            out.extend_from_slice(b", ");
        }
        *arguments += 1;
    };
    for (i, &byte) in name.iter().enumerate() {
        match (byte, at) {
            (b'L', At::Prefix) => at = At::Class,
            (b'L', At::Types) => {
                separate(&mut out, &mut arguments);
                at = At::ArgumentClass;
            }
            (b'B' | b'C' | b'D' | b'F' | b'I' | b'J' | b'S' | b'Z', At::Types) => {
                separate(&mut out, &mut arguments);
                out.extend_from_slice(primitive(byte).as_bytes());
                brackets(&mut out, &mut arrays);
            }
            (b'V', At::Types) => out.extend_from_slice(b"void"),
            (b'[', At::Types) => arrays += 1,
            (b'(', At::Method) => {
                out.push(byte);
                at = At::Types;
            }
            (b')', At::Types) => {
                out.push(byte);
                arguments = 0;
            }
            (b';', At::Class) => {
                if name.get(i + 1).is_some_and(u8::is_ascii_alphabetic) {
                    out.push(b'.');
                }
                at = At::Method;
            }
            (b';', At::ArgumentClass) => {
                brackets(&mut out, &mut arrays);
                at = At::Types;
            }
            (b'/', At::Class | At::ArgumentClass) => out.push(b'.'),
            (b'[' | b'(' | b')' | b';' | b'/', _) => return None,
            _ => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

fn brackets(out: &mut Vec<u8>, arrays: &mut usize) {
    for _ in 0..std::mem::take(arrays) {
        out.extend_from_slice(b"[]");
    }
}

fn primitive(byte: u8) -> &'static str {
    match byte {
        b'B' => "byte",
        b'C' => "char",
        b'D' => "double",
        b'F' => "float",
        b'I' => "int",
        b'J' => "long",
        b'S' => "short",
        _ => "boolean",
    }
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn methods_of_openjdk() {
        let cases = [
            ("Ljava/lang/StringLatin1;equals([B[B)Z", Some("java.lang.StringLatin1.equals(byte[], byte[])")),
            (
                "Ljava/util/HashMap;get(Ljava/lang/Object;)Ljava/lang/Object;",
                Some("java.util.HashMap.get(java.lang.Object)"),
            ),
            ("Ljava/lang/Object;<init>()V", Some("java.lang.Object<init>()")),
            ("LTest;f([[Ljava/lang/String;I)V", Some("Test.f(java.lang.String[][], int)")),
            ("operator()", None),
        ];
        for (name, want) in cases {
            assert_eq!(demangle(name.as_bytes()).as_deref(), want, "{name}");
        }
    }
}
