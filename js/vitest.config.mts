import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'node',
    include: ['tests/**/*.test.ts'],
    coverage: {
      provider: 'v8',
      include: ['src/**/*.ts'],
      // These need the elements of a page. `tests/notebook/*_page.py` and `tests/labextension/` try them.
      exclude: [
        'src/plugin.ts',
        'src/messages.ts',
        'src/forms.ts',
        'src/endlines.ts',
        'src/page/answers.ts',
        'src/page/errors.ts',
        'src/page/overview_view.ts',
        'src/page/plugins.ts',
        'src/page/side_panel.ts',
        'src/page/prose_editor.ts',
        'src/page/renderers.ts',
        'src/widgets/anymodel.ts',
        'src/widgets/choices.ts',
        'src/widgets/form*.ts',
        'src/widgets/notifications.ts',
        'src/widgets/scrollboxes.ts',
        'src/widgets/secret.ts',
        'src/widgets/visibility.ts',
        'src/widgets/visits.ts'
      ],
      reporter: ['text'],
      thresholds: { lines: 85 }
    }
  }
});
