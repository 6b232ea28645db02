// Wide characters through streams of files below a directory, and through standard input and output.
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define MUST(holds) must(holds, #holds, __LINE__)

static void must(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "line %d: %s (errno %d)\n", line, what, errno);
        exit(1);
    }
}

int main(int, char **arguments) {
    MUST(setlocale(LC_ALL, "C.UTF-8") != NULL);
    char path[200];
    snprintf(path, sizeof path, "%s/letters", arguments[1]);
    FILE *file = fopen(path, "w+");
    MUST(fputws(L"gr\u00fcn \u20ac\n", file) >= 0 && fputwc(L'\U0001f600', file) == L'\U0001f600' && putwc(L'\n', file) == L'\n');
    fflush(file); fseek(file, 0, SEEK_SET);
    wchar_t text[20];
    MUST(getwc(file) == L'g' && fgetwc(file) == L'r' && fgetwc(file) == 0xfc && ungetwc(0xfc, file) == 0xfc);
    MUST(fgetws(text, 20, file) == text && wcscmp(text, L"\u00fcn \u20ac\n") == 0);
    MUST(fgetws(text, 2, file) == text && text[0] == L'\U0001f600' && text[1] == 0);
    MUST(getwc(file) == L'\n' && fgetwc(file) == WEOF && feof(file) && !ferror(file) && fgetws(text, 20, file) == NULL);
    clearerr(file);
    fclose(file);
    file = fopen(path, "w"); fputs("a\xff", file); fclose(file);
    file = fopen(path, "r");
    MUST(fgetwc(file) == L'a');
    errno = 0;
    MUST(fgetwc(file) == WEOF && errno == EILSEQ && ferror(file));
    fclose(file);
    wchar_t line[100];
    while (fgetws(line, 100, stdin)) MUST(fputws(line, stdout) >= 0);
    putwchar(L'!');
    putwchar(L'\n');
    return 0;
}
